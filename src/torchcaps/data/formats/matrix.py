"""LeCun's binary matrix format, in which NORB and smallNORB are published.

A file consists of, little endian: a magic number for the element type, the number of dimensions, the size of
each dimension (at least three sizes, of which the surplus ones are 1), and the elements, with the last
dimension running fastest. A file whose name ends in `.gz` is gzipped.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator

import numpy as np

from torchcaps._files import read_bytes, write_atomically
from torchcaps.errors import DataError

ELEMENT_TYPES: dict[int, np.dtype] = {
    0x1E3D4C51: np.dtype("<f4"),
    0x1E3D4C53: np.dtype("<f8"),
    0x1E3D4C54: np.dtype("<i4"),
    0x1E3D4C55: np.dtype("u1"),
    0x1E3D4C56: np.dtype("<i2"),
}
MAGIC_OF_TYPE = {element_type: magic for magic, element_type in ELEMENT_TYPES.items()}
MOST_DIMENSIONS = 8
_CHUNK = 1 << 24


def read_matrix(path: str | os.PathLike[str]) -> np.ndarray:
    """Read the array in a binary matrix file.

    Raises:
        DataError: it is not exactly one complete matrix; the message names the file.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_matrix(f"{folder}/cat.mat.gz", np.array([0, 1, 2], dtype=np.int32))
        ...     read_matrix(f"{folder}/cat.mat.gz")
        array([0, 1, 2], dtype=int32)
    """
    return parse_matrix(read_bytes(path), path)


def parse_matrix(content: bytearray, path: str | os.PathLike[str]) -> np.ndarray:
    """Parse the unpacked content of a matrix file; `path` names it in errors."""
    if len(content) < 8:
        raise DataError.in_file(path, f"{len(content)} bytes are too few for a matrix header")
    magic, ndim = struct.unpack_from("<Ii", content)
    if magic not in ELEMENT_TYPES:
        known = ", ".join(f"{each:#010x}" for each in ELEMENT_TYPES)
        raise DataError.in_file(path, f"magic number {magic:#010x} is not a matrix file's (known: {known})")
    if not 0 <= ndim <= MOST_DIMENSIONS:
        raise DataError.in_file(path, f"{ndim} dimensions; a matrix has 0 to {MOST_DIMENSIONS}")
    written_sizes = max(ndim, 3)
    start = 8 + 4 * written_sizes
    if len(content) < start:
        raise DataError.in_file(path, f"the header is cut short: {len(content)} of {start} bytes")
    sizes = struct.unpack_from(f"<{written_sizes}i", content, 8)
    shape, surplus = sizes[:ndim], sizes[ndim:]
    if min(sizes) < 0 or any(size > 1 for size in surplus):
        raise DataError.in_file(path, f"impossible sizes {list(sizes)} for {ndim} dimensions")
    element_type = ELEMENT_TYPES[magic]
    wanted = start + math.prod(shape) * element_type.itemsize
    if len(content) != wanted:
        fault = "is cut short" if len(content) < wanted else "has trailing bytes"
        described = f"{element_type.name} {list(shape)}"
        raise DataError.in_file(
            path, f"the data {fault}: {len(content)} bytes, {wanted} expected for {described}"
        )
    return np.frombuffer(content, element_type, offset=start).reshape(shape)


def write_matrix(path: str | os.PathLike[str], array: np.ndarray) -> None:
    """Write an array (uint8, int16, int32, float32 or float64) as a binary matrix file.

    It is gzipped if its name ends in `.gz`. The same array gives the same bytes.
    """
    array = np.asarray(array)
    element_type = array.dtype.newbyteorder("<")
    if element_type not in MAGIC_OF_TYPE:
        known = ", ".join(each.name for each in MAGIC_OF_TYPE)
        raise ValueError(f"array must be one of {known}, got {array.dtype.name}")
    if array.ndim > MOST_DIMENSIONS:
        raise ValueError(f"array must have at most {MOST_DIMENSIONS} dimensions, got {array.ndim}")
    sizes = array.shape + (1,) * (3 - array.ndim)
    header = struct.pack(f"<Ii{len(sizes)}i", MAGIC_OF_TYPE[element_type], array.ndim, *sizes)
    elements = np.ascontiguousarray(array, element_type)

    def chunks() -> Iterator[memoryview | bytes]:
        yield header
        flat = elements.reshape(-1).view(np.uint8)
        for begin in range(0, len(flat), _CHUNK):
            yield flat[begin : begin + _CHUNK].data

    write_atomically(path, chunks())
