"""The files of a published data set: found on disk, or fetched."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from torchcaps._files import check_sha256, read_bytes, write_atomically
from torchcaps.data.fetch.cache import DATA_VARIABLE, cache_dir, locked, user_folders
from torchcaps.data.fetch.suppliers import Sizes, Supplier, SupplyError, read_archive
from torchcaps.errors import DataError

OFFLINE_VARIABLE = "TORCHCAPS_OFFLINE"
LOGGER = logging.getLogger(__name__)

_unchecked_folders: set[Path] = set()
"""Folders of the cache for which the user has been warned that files have no published checksum."""


class Content(NamedTuple):
    """The unpacked bytes of a file, and the file."""

    path: Path
    data: bytearray


@dataclass(frozen=True)
class Collection:
    """The files of one data set and their sources.

    Attributes:
        folder: the name of its folder in a data directory and in the cache.
        sha256: of the unpacked content of each file, by file name without `.gz`; None if none was published.
            Then the one it has when it is first fetched is recorded beside it, and a later change is noticed.
        suppliers: tried in this order for files that are not on disk.
        archive: the name of a tar archive that may be in the folder instead of the files.
        inside: the folder of the files in that archive.
        sizes: of the unpacked content of each file, in bytes, where it is known; a larger file is refused
            before all of it is read. Other files may have 2 GiB.
    """

    folder: str
    sha256: Mapping[str, str | None]
    suppliers: Sequence[Supplier] = ()
    archive: str | None = None
    inside: str = ""
    sizes: Sizes = field(default_factory=dict)

    def read(self, names: Sequence[str], data_dir: str | os.PathLike[str] | None = None) -> list[Content]:
        """Read files by name, unpacked and checked; those that are not on disk are fetched into the cache.

        The search goes through `data_dir`, `$TORCHCAPS_DATA`, the cache and then the suppliers, unless
        `$TORCHCAPS_OFFLINE` is set to anything. A damaged file in one of the user's folders is an error; in
        the cache it is fetched again.

        Raises:
            DataError: a file is damaged, or could not be found or fetched; the message says what was tried
                and what to do.
        """
        contents = self._read_users(names, data_dir)
        missing = [name for name in names if name not in contents]
        if missing:
            contents |= self._read_cache(missing, data_dir)
        for name in names:
            LOGGER.debug(f"{self.folder}: {name} from {contents[name].path}")
        return [contents[name] for name in names]

    def _read_users(
        self, names: Sequence[str], data_dir: str | os.PathLike[str] | None
    ) -> dict[str, Content]:
        contents: dict[str, Content] = {}
        for place in user_folders(self.folder, data_dir):
            for name in names:
                path = None if name in contents else existing(place / name)
                if path is not None:
                    contents[name] = Content(path, read_bytes(path, self.sha256[name], self.sizes.get(name)))
            missing = [name for name in names if name not in contents]
            if missing and self.archive and (place / self.archive).is_file():
                archive = place / self.archive
                for name, data in read_archive(archive, self.inside, missing, self.sizes).items():
                    check_sha256(data, self.sha256[name], f"{archive}: {name}")
                    contents[name] = Content(archive, data)
        return contents

    def _read_cache(
        self, names: Sequence[str], data_dir: str | os.PathLike[str] | None
    ) -> dict[str, Content]:
        folder = cache_dir() / self.folder
        contents = self._read_undamaged(names, folder)
        if len(contents) == len(names):
            return contents
        failures: list[str] = []
        if os.environ.get(OFFLINE_VARIABLE):
            failures.append(f"the network: not used, since {OFFLINE_VARIABLE} is set")
        else:
            try:
                with locked(folder):
                    contents = self._fetch(names, folder, failures)
            except OSError as fault:
                failures.append(f"{folder}: {fault.strerror or fault}")
        missing = [name for name in names if name not in contents]
        if missing:
            raise DataError(self._explain(missing, failures, data_dir))
        return contents

    def _fetch(self, names: Sequence[str], folder: Path, failures: list[str]) -> dict[str, Content]:
        # Another process may have fetched them while this one waited for the lock.
        contents = self._read_undamaged(names, folder)
        cached = set(contents)
        for supplier in self.suppliers:
            missing = [name for name in names if name not in contents]
            if not missing:
                break
            try:
                wanted = self._names_to_fetch(supplier, missing, folder)
                checksums = {name: self._checksum(name, folder) for name in self.sha256}
                supplier.supply(wanted, checksums, folder, self.sizes)
            except SupplyError as fault:
                failures.append(f"{supplier}: {fault}")
            contents |= self._read_undamaged(missing, folder)
        self._record({name: content for name, content in contents.items() if name not in cached}, folder)
        return contents

    def _checksum(self, name: str, folder: Path) -> str | None:
        """The published checksum of a file in the cache, or the one it had when it was first fetched."""
        published, record = self.sha256[name], record_of(folder, name)
        if published is not None or not record.is_file():
            return published
        return next(iter(record.read_text(errors="replace").split()), None)

    def _record(self, fetched: Mapping[str, Content], folder: Path) -> None:
        """Record the checksums of fetched files that have none, and say so once per process."""
        unknown = [name for name in fetched if self._checksum(name, folder) is None]
        for name in unknown:
            line = f"{hashlib.sha256(fetched[name].data).hexdigest()}  {name}\n"
            write_atomically(record_of(folder, name), [line.encode()])
        if unknown and folder not in _unchecked_folders:
            _unchecked_folders.add(folder)
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            LOGGER.warning(
                f"{self.folder}: no checksum was published for {unknown[0]}{more}, so the content could not "
                f"be verified beyond gzip's own check. Its sha256 is recorded in {folder}, and a later "
                "change will be noticed."
            )

    def _names_to_fetch(self, supplier: Supplier, missing: Sequence[str], folder: Path) -> Sequence[str]:
        """Of an archive, all files that the cache lacks, to fetch the archive only once."""
        if not supplier.is_archive:
            return missing
        return [name for name in self.sha256 if name in missing or existing(folder / name) is None]

    def _read_undamaged(self, names: Sequence[str], folder: Path) -> dict[str, Content]:
        """Read those files of the cache that exist and have the right checksum."""
        contents = {}
        for name in names:
            for path in (folder / name, folder / f"{name}.gz"):
                try:
                    if path.is_file():
                        contents[name] = Content(
                            path, read_bytes(path, self._checksum(name, folder), self.sizes.get(name))
                        )
                        break
                except DataError:
                    continue
        return contents

    def _explain(
        self, missing: Sequence[str], failures: Sequence[str], data_dir: str | os.PathLike[str] | None
    ) -> str:
        places = [*user_folders(self.folder, data_dir), cache_dir() / self.folder]
        lines = [f"{self.folder}: {', '.join(missing)} could not be found or fetched.", "Looked in:"]
        lines += [f"  {place}" for place in places]
        if failures:
            lines += ["Tried:", *(f"  {each}" for each in failures)]
        records = [record_of(cache_dir() / self.folder, name) for name in missing]
        lines += [
            f"If the checksum of a file is not the one in {record}, which it had when it was first fetched, "
            "the file has changed since: delete the record to accept the new one."
            for record in records
            if record.is_file()
        ]
        lines.append(
            f"Put the files by hand, plain or with .gz, into {cache_dir() / self.folder}, or into a folder "
            f"{self.folder}/ of the directory {DATA_VARIABLE}."
        )
        return "\n".join(lines)


def record_of(folder: Path, name: str) -> Path:
    """The file that holds the checksum that `name` had when it was first fetched."""
    return folder / f"{name}.sha256"


def existing(path: Path) -> Path | None:
    """The path of a file or of its `.gz`, whichever exists.

    >>> existing(Path("no/such/file")) is None
    True
    """
    for candidate in (path, path.with_name(f"{path.name}.gz")):
        if candidate.is_file():
            return candidate
    return None
