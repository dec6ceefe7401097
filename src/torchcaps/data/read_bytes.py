from __future__ import annotations

import gzip
import hashlib
import os
import zlib

from torchcaps.data.errors import DataError


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
