from __future__ import annotations

import gzip
import os
import zlib

from torchcaps.data.errors import DataError


def read_bytes(path: str | os.PathLike[str]) -> bytearray:
    """Read a whole file, unpacked where its name ends in `.gz`; a `DataError` names one that cannot be read.

    The result is writable, so that arrays and tensors can share its memory.
    """
    try:
        with open(path, "rb") as raw:
            if not str(path).endswith(".gz"):
                content = bytearray(os.fstat(raw.fileno()).st_size)
                filled = raw.readinto(content)  # type: ignore[attr-defined]
                if filled != len(content):
                    raise DataError.in_file(path, f"only {filled} of {len(content)} bytes could be read")
                return content
            with gzip.GzipFile(fileobj=raw) as packed:
                return bytearray(packed.read())
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise DataError.in_file(path, f"the gzip data is damaged or cut short ({fault})") from fault
    except OSError as fault:
        raise DataError.in_file(path, f"it cannot be read ({fault.strerror or fault})") from fault
