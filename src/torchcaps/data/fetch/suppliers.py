"""Sources of files that are not on disk yet.

A supplier writes requested files into a folder, each only after its content was found to have the published
checksum. It raises `SupplyError` with the reason if it fails.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol

from torchcaps._files import MAX_BYTES, check_sha256, limited_chunks, read_bytes, write_atomically
from torchcaps.data.fetch.download import DownloadError, download
from torchcaps.errors import DataError

Checksums = Mapping[str, "str | None"]
Sizes = Mapping[str, int]
"""Bytes of the unpacked content of each file whose size is known."""

NO_SIZES: Sizes = MappingProxyType({})


class SupplyError(RuntimeError):
    """A supplier could not deliver the files; the message says why."""


class Supplier(Protocol):
    """A source of files.

    Attributes:
        is_archive: whether it has to fetch all files to deliver one.
    """

    is_archive: ClassVar[bool]

    def supply(
        self, names: Sequence[str], checksums: Checksums, folder: Path, sizes: Sizes = NO_SIZES
    ) -> None:
        """Write the files `names` into `folder`, or raise `SupplyError`."""


@dataclass(frozen=True)
class Mirror:
    """A web folder that holds each file under its own name and `suffix`."""

    url: str
    suffix: str = ".gz"
    is_archive: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.url

    def supply(
        self, names: Sequence[str], checksums: Checksums, folder: Path, sizes: Sizes = NO_SIZES
    ) -> None:
        """Download each file; stop at the first failure, since the others would fail in the same way."""
        for name in names:
            packed, size = name + self.suffix, sizes.get(name)
            check = checker(checksums[name], size)
            try:
                download(f"{self.url}/{packed}", folder / packed, check, max_bytes=largest_packed_size(size))
            except DownloadError as fault:
                raise SupplyError(str(fault)) from fault


def largest_packed_size(size: int | None) -> int:
    """The most bytes that a file of `size` bytes can have after gzip, which may add a little."""
    return MAX_BYTES if size is None else size + size // 100 + 4096


def checker(sha256: str | None, size: int | None = None) -> Callable[[Path], None]:
    """Make a function that raises unless a file is complete and its unpacked content has the checksum.

    A file without a published checksum is still unpacked, so that gzip's own checksum is verified.
    """

    def check(path: Path) -> None:
        read_bytes(path, sha256, size)

    return check


@dataclass(frozen=True)
class Tarball:
    """One archive on the web that holds all files in the folder `inside`."""

    url: str
    inside: str
    is_archive: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.url

    def supply(
        self, names: Sequence[str], checksums: Checksums, folder: Path, sizes: Sizes = NO_SIZES
    ) -> None:
        """Download the archive, extract the files and delete it."""
        archive = folder / self.url.rsplit("/", 1)[-1]

        def check(path: Path) -> None:
            for name, content in read_archive(path, self.inside, names, sizes).items():
                check_sha256(content, checksums[name], f"{path}: {name}")

        try:
            download(self.url, archive, check)
        except DownloadError as fault:
            raise SupplyError(str(fault)) from fault
        for name, content in read_archive(archive, self.inside, names, sizes).items():
            write_atomically(folder / name, [content])
        archive.unlink()


class _LimitedStream:
    """The unpacked bytes of a gzip file, for `tarfile`; reading more than `MAX_BYTES` is an error."""

    def __init__(self, packed: gzip.GzipFile, path: Path) -> None:
        self.chunks = limited_chunks(packed, MAX_BYTES, path)
        self.buffer = bytearray()

    def read(self, size: int) -> bytes:
        while len(self.buffer) < size and (chunk := next(self.chunks, b"")):
            self.buffer += chunk
        content = bytes(self.buffer[:size])
        del self.buffer[:size]
        return content


@contextmanager
def open_archive(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open a gzipped tar archive, to be read once from its start, and at most `MAX_BYTES` of it.

    Raises:
        DataError: the archive is damaged or too large; the message names it.
    """
    try:
        with gzip.open(archive) as packed:
            stream = _LimitedStream(packed, archive)
            with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
                yield tar
    except (tarfile.TarError, EOFError, OSError, zlib.error) as fault:
        raise DataError.in_file(archive, f"the archive is damaged or cut short ({fault})") from fault


def read_archive(
    archive: Path, inside: str, names: Sequence[str], sizes: Sizes = NO_SIZES
) -> dict[str, bytearray]:
    """Read files from the folder `inside` of a tar archive in one pass, without unpacking it to disk.

    Raises:
        DataError: the archive is damaged, lacks a file, or has one that is larger than in `sizes`.
    """
    wanted = {f"{inside}/{name}": name for name in names}
    contents: dict[str, bytearray] = {}
    with open_archive(archive) as tar:
        for member in tar:
            name = wanted.get(member.name)
            if name is None or not member.isfile():
                continue
            # A sparse member may be larger than all that was read of the archive.
            limit = sizes.get(name, MAX_BYTES)
            if member.size > limit:
                raise DataError.in_file(
                    archive, f"{member.name} has {member.size} bytes; at most {limit} were expected"
                )
            file = tar.extractfile(member)
            if file is not None:
                contents[name] = bytearray(file.read())
    missing = [name for name in names if name not in contents]
    if missing:
        raise DataError.in_file(archive, f"the archive lacks {inside}/{missing[0]}")
    return contents
