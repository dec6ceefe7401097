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

MAX_BYTES = 2 << 30
"""The most that is downloaded for one file, or unpacked from one, if its size is not known: 2 GiB."""

_CHUNK = 1 << 20


@contextmanager
def replaced_on_success(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` if the block succeeds, and deleted if it fails.

    Readers see the old file or the complete new one, never a part.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with replaced_on_success(f"{folder}/note.txt") as temporary:
        ...         _ = temporary.write_text("complete")
        ...     sorted(os.listdir(folder)), Path(folder, "note.txt").read_text()
        (['note.txt'], 'complete')
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
    """Write `chunks` to `path`, gzipped if the name ends in `.gz`; an error leaves the old file as it was."""
    with replaced_on_success(path) as temporary, open(temporary, "wb") as plain:
        if not str(path).endswith(".gz"):
            for chunk in chunks:
                plain.write(chunk)
            return
        # Without file name and time, so that the same data gives the same bytes.
        with gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed:
            for chunk in chunks:
                packed.write(chunk)


def read_bytes(
    path: str | os.PathLike[str], sha256: str | None = None, max_bytes: int | None = None
) -> bytearray:
    """Read a file, unpacked if its name ends in `.gz`.

    Args:
        path: the file.
        sha256: the checksum that the unpacked content must have, if one is known.
        max_bytes: the largest size of the unpacked content. By default that of a `.gz` file is 2 GiB, since a
            small file may unpack to any size, and a plain file has no limit.

    Returns:
        The content, writable, so that arrays and tensors can share its memory.

    Raises:
        DataError: it cannot be read, is incomplete or too large, or has another checksum; the message names
            the file.
    """
    try:
        with open(path, "rb") as raw:
            if str(path).endswith(".gz"):
                with gzip.GzipFile(fileobj=raw) as packed:
                    content = bytearray()
                    for chunk in limited_chunks(packed, MAX_BYTES if max_bytes is None else max_bytes, path):
                        content += chunk
            else:
                size = os.fstat(raw.fileno()).st_size
                if max_bytes is not None and size > max_bytes:
                    raise DataError.in_file(path, f"it has {size} bytes; at most {max_bytes} were expected")
                content = bytearray(size)
                filled = raw.readinto(content)
                if filled != len(content):
                    raise DataError.in_file(path, f"only {filled} of {len(content)} bytes could be read")
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise DataError.in_file(path, f"the gzip data is damaged or cut short ({fault})") from fault
    except OSError as fault:
        raise DataError.in_file(path, f"it cannot be read ({fault.strerror or fault})") from fault
    check_sha256(content, sha256, path)
    return content


def limited_chunks(packed: gzip.GzipFile, max_bytes: int, path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Unpack a stream piece by piece, and raise a `DataError` that names `path` after `max_bytes`."""
    size = 0
    while chunk := packed.read(_CHUNK):
        size += len(chunk)
        if size > max_bytes:
            raise DataError.in_file(
                path,
                f"it unpacks to more than {max_bytes} bytes, the most that was expected: it is a different "
                "file. If it is right, unpack it by hand",
            )
        yield chunk


def check_sha256(content: bytearray | bytes, sha256: str | None, path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` that names `path` unless `content` has the checksum, if one is known."""
    if sha256 is None:
        return
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise DataError.in_file(
            path,
            f"its content has sha256 {actual[:16]}…, but {sha256[:16]}… was expected: the file is "
            "damaged or a different one; delete it, and it will be fetched again",
        )


def digest(path: str | Path) -> str:
    """The sha256 of a file, which identifies the weights that a result was measured with."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
