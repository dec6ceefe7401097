from __future__ import annotations

import gzip
import hashlib
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torchcaps.errors import DataError


@contextmanager
def replaced_on_success(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path that takes the name `path` when the block ends well, and vanishes when not.

    Readers see the old file or the whole new one, never a part.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replaced_on_success(f"{folder}/note.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     sorted(os.listdir(folder)), Path(folder, "note.txt").read_text()
    (['note.txt'], 'whole')
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write `chunks` to `path`, gzipped where the name ends in `.gz`, whole or not at all."""
    with replaced_on_success(path) as temporary, open(temporary, "wb") as plain:
        if not str(path).endswith(".gz"):
            for chunk in chunks:
                plain.write(chunk)
            return
        # No file name and no time inside, so that the same data gives the same bytes.
        with gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed:
            for chunk in chunks:
                packed.write(chunk)


def read_bytes(path: str | os.PathLike[str], sha256: str | None = None) -> bytearray:
    """Read a whole file, unpacked where its name ends in `.gz`.

    Raises `DataError` naming the file when it cannot be read, is not whole, or when the unpacked content does
    not have the checksum `sha256`. The result is writable, so that arrays and tensors can share its memory.
    """
    try:
        with open(path, "rb") as raw:
            if str(path).endswith(".gz"):
                with gzip.GzipFile(fileobj=raw) as packed:
                    content = bytearray(packed.read())
            else:
                content = bytearray(os.fstat(raw.fileno()).st_size)
                filled = raw.readinto(content)
                if filled != len(content):
                    raise DataError.in_file(path, f"only {filled} of {len(content)} bytes could be read")
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise DataError.in_file(path, f"the gzip data is damaged or cut short ({fault})") from fault
    except OSError as fault:
        raise DataError.in_file(path, f"it cannot be read ({fault.strerror or fault})") from fault
    check_sha256(content, sha256, path)
    return content


def check_sha256(content: bytearray | bytes, sha256: str | None, path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` naming `path` unless `content` has the checksum, if one is known."""
    if sha256 is None:
        return
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError.in_file(
            path,
            f"its content has sha256 {found[:16]}…, but {sha256[:16]}… is the published one: the file is "
            "damaged or another one; delete it to have it fetched again",
        )


def digest(path: str | Path) -> str:
    """sha256 of a file, so that a number can be tied to the weights that gave it."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
