"""Sources of files that are not on disk yet.

A supplier writes requested files into a folder, each only after its content was found to have the published
checksum. It raises `SupplyError` with the reason if it fails.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from torchcaps._files import check_sha256, read_bytes, write_atomically
from torchcaps.data.fetch.download import DownloadError, download
from torchcaps.errors import DataError

Checksums = Mapping[str, "str | None"]


class SupplyError(RuntimeError):
    """A supplier could not deliver the files; the message says why."""


class Supplier(Protocol):
    """A source of files.

    Attributes:
        is_archive: whether it has to fetch all files to deliver one.
    """

    is_archive: ClassVar[bool]

    def supply(self, names: Sequence[str], checksums: Checksums, folder: Path) -> None:
        """Write the files `names` into `folder`, or raise `SupplyError`."""


@dataclass(frozen=True)
class Mirror:
    """A web folder that holds each file under its own name and `suffix`."""

    url: str
    suffix: str = ".gz"
    is_archive: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.url

    def supply(self, names: Sequence[str], checksums: Checksums, folder: Path) -> None:
        """Download each file; stop at the first failure, since the others would fail in the same way."""
        for name in names:
            packed = name + self.suffix
            try:
                download(f"{self.url}/{packed}", folder / packed, checker(checksums[name]))
            except DownloadError as fault:
                raise SupplyError(str(fault)) from fault


def checker(sha256: str | None) -> Callable[[Path], None]:
    """Make a function that raises unless a file is complete and its unpacked content has the checksum.

    A file without a published checksum is still unpacked, so that gzip's own checksum is verified.
    """

    def check(path: Path) -> None:
        read_bytes(path, sha256)

    return check


@dataclass(frozen=True)
class Tarball:
    """One archive on the web that holds all files in the folder `inside`."""

    url: str
    inside: str
    is_archive: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.url

    def supply(self, names: Sequence[str], checksums: Checksums, folder: Path) -> None:
        """Download the archive, extract the files and delete it."""
        archive = folder / self.url.rsplit("/", 1)[-1]

        def check(path: Path) -> None:
            for name, content in read_archive(path, self.inside, names).items():
                check_sha256(content, checksums[name], f"{path}: {name}")

        try:
            download(self.url, archive, check)
        except DownloadError as fault:
            raise SupplyError(str(fault)) from fault
        for name, content in read_archive(archive, self.inside, names).items():
            write_atomically(folder / name, [content])
        archive.unlink()


def read_archive(archive: Path, inside: str, names: Sequence[str]) -> dict[str, bytearray]:
    """Read files from the folder `inside` of a tar archive in one pass, without unpacking it to disk."""
    wanted = {f"{inside}/{name}": name for name in names}
    contents: dict[str, bytearray] = {}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                name = wanted.get(member.name)
                file = tar.extractfile(member) if name is not None and member.isfile() else None
                if name is not None and file is not None:
                    contents[name] = bytearray(file.read())
    except (tarfile.TarError, EOFError, OSError) as fault:
        raise DataError.in_file(archive, f"the archive is damaged or cut short ({fault})") from fault
    missing = [name for name in names if name not in contents]
    if missing:
        raise DataError.in_file(archive, f"the archive lacks {inside}/{missing[0]}")
    return contents
