"""The IDX format of MNIST and Fashion-MNIST.

A file is, big endian: two zero bytes, one byte for the element type, one for the number of dimensions, the
size of each dimension as an unsigned 32-bit number, and the elements. The data sets use unsigned bytes
only.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import numpy as np

from torchcaps._files import read_bytes, write_atomically
from torchcaps.errors import DataError

UNSIGNED_BYTE = 0x08
MOST_DIMENSIONS = 4


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read the uint8 array in an IDX file, plain or `.gz`.

    Raises:
        DataError: it is not exactly one complete array; the message names the file.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_idx(f"{folder}/labels.gz", np.array([7, 2, 1], dtype=np.uint8))
        ...     read_idx(f"{folder}/labels.gz")
        array([7, 2, 1], dtype=uint8)
    """
    return parse_idx(read_bytes(path), path)


def parse_idx(content: bytearray, path: str | os.PathLike[str]) -> np.ndarray:
    """Parse the unpacked content of an IDX file; `path` names it in errors."""
    if len(content) < 4:
        raise DataError.in_file(path, f"{len(content)} bytes are too few for an IDX header")
    zero, element_type, ndim = struct.unpack_from(">HBB", content)
    if zero != 0 or element_type != UNSIGNED_BYTE:
        raise DataError.in_file(
            path, f"it starts with {bytes(content[:4]).hex()}, not with 000008.. as IDX bytes do"
        )
    if not 1 <= ndim <= MOST_DIMENSIONS:
        raise DataError.in_file(path, f"{ndim} dimensions; 1 to {MOST_DIMENSIONS} were expected")
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError.in_file(path, f"the header is cut short: {len(content)} of {start} bytes")
    shape = struct.unpack_from(f">{ndim}I", content, 4)
    wanted = start + math.prod(shape)
    if len(content) != wanted:
        fault = "is cut short" if len(content) < wanted else "has trailing bytes"
        raise DataError.in_file(
            path, f"the data {fault}: {len(content)} bytes, {wanted} expected for uint8 {list(shape)}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def write_idx(path: str | os.PathLike[str], array: np.ndarray) -> None:
    """Write a uint8 array of 1 to 4 dimensions as an IDX file, gzipped if its name ends in `.gz`."""
    if array.dtype != np.uint8 or not 1 <= array.ndim <= MOST_DIMENSIONS:
        raise ValueError(
            f"array must be uint8 of 1 to {MOST_DIMENSIONS} dimensions, got {array.dtype} {list(array.shape)}"
        )
    header = struct.pack(f">HBB{array.ndim}I", 0, UNSIGNED_BYTE, array.ndim, *array.shape)
    write_atomically(Path(path), [header, array.tobytes()])
