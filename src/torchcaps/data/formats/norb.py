"""LeCun's binary matrix format, in which NORB and smallNORB are published.

A file is, little endian throughout: a magic number that names the element type, the number of dimensions, the
size of each dimension (at least three sizes are written, the surplus ones being 1), and the elements, with
the last dimension running fastest. Files are plain or gzipped; a name that ends in `.gz` says which.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchcaps._files import read_bytes, write_atomically
from torchcaps.data.fetch.collection import Content
from torchcaps.data.imageset import ImageSet
from torchcaps.data.transforms import resize
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

    Raises `DataError` naming the file and the fault when it is not exactly one whole matrix.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_matrix(f"{folder}/cat.mat.gz", np.array([0, 1, 2], dtype=np.int32))
    ...     read_matrix(f"{folder}/cat.mat.gz")
    array([0, 1, 2], dtype=int32)
    """
    return parse_matrix(read_bytes(path), path)


def parse_matrix(content: bytearray, path: str | os.PathLike[str]) -> np.ndarray:
    """Read the array in the unpacked `content` of the file `path`, which only names it in errors."""
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
    """Write `array` (uint8, int16, int32, float32 or float64) as a binary matrix file, whole or not at all.

    The same array gives the same bytes, gzipped or not.
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


ROLE = {"train": "training", "test": "testing"}
KINDS = ("dat", "cat", "info")
VIEW_FACTS = ("instance", "elevation", "azimuth", "lighting")
JITTER_FACTS = ("shift_x", "shift_y", "luminance", "contrast", "scale", "rotation")


class Matrix(NamedTuple):
    """An array and the file it was read from."""

    path: Path
    array: np.ndarray


def matrix(content: Content) -> Matrix:
    """Parse a file that has been read already."""
    return Matrix(content.path, parse_matrix(content.data, content.path))


def parts_in_folder(data_dir: str | os.PathLike[str], folder: str, split: str) -> list[tuple[Path, ...]]:
    """List the (dat, cat, info) files of a split in a NORB-format directory made anywhere, part by part.

    A file's name ends in `training-dat.mat`, or `training-01-dat.mat` where there are several parts
    (`testing` for the test split), plain or with `.gz`. The directory may also hold them in a sub-folder
    `folder`.
    """
    given = Path(data_dir).expanduser()
    pattern = re.compile(rf"(.*{ROLE[split]}(?:-\d+)?)-dat\.mat(?:\.gz)?")
    for place in (given, given / folder):
        files = sorted(place.iterdir()) if place.is_dir() else []
        stems = sorted({found[1] for file in files if (found := pattern.fullmatch(file.name))})
        if stems:
            return [tuple(_one_of(place, f"{stem}-{kind}.mat") for kind in KINDS) for stem in stems]
    raise DataError(
        f"{given}: no file whose name ends in {ROLE[split]}-dat.mat or {ROLE[split]}-dat.mat.gz, "
        f"neither there nor in {folder}/"
    )


def _one_of(place: Path, name: str) -> Path:
    for candidate in (place / name, place / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise DataError.in_file(place / name, "it is missing beside its dat file")


def read_contents(paths: Sequence[Path]) -> list[Content]:
    """Read files whose checksum is not known."""
    return [Content(path, read_bytes(path)) for path in paths]


def make_part(
    contents: Sequence[Content], classes: tuple[str, ...], *, stereo: bool, size: int | None
) -> ImageSet:
    """Make an image set of one (dat, cat, info) triple, after checking that they fit each other.

    Images are `[N, 2, H, W]` with the left camera first, or `[N, 1, H, W]` of the left camera if not
    `stereo`, scaled to `size`. The facts about each view are its metadata.
    """
    images, labels, info = (matrix(content) for content in contents)
    if images.array.dtype != np.uint8 or images.array.ndim != 4 or images.array.shape[1] != 2:
        raise DataError.in_file(images.path, f"{_described(images)}; uint8 [N, 2, H, W] was expected")
    count = len(images.array)
    if labels.array.shape != (count,) or labels.array.dtype != np.int32:
        raise DataError.in_file(labels.path, f"{_described(labels)}; int32 [{count}] was expected")
    if count and not 0 <= labels.array.min() <= labels.array.max() < len(classes):
        found = f"{labels.array.min()} to {labels.array.max()}"
        raise DataError.in_file(labels.path, f"categories {found}; 0 to {len(classes) - 1} were expected")
    facts = (*VIEW_FACTS, *JITTER_FACTS)
    if info.array.ndim != 2 or len(info.array) != count or info.array.shape[1] not in (4, len(facts)):
        raise DataError.in_file(info.path, f"{_described(info)}; [{count}, 4 or {len(facts)}] was expected")
    pixels = torch.from_numpy(images.array if stereo else np.ascontiguousarray(images.array[:, :1]))
    return ImageSet(
        pixels if size is None else resize(pixels, size),
        torch.from_numpy(labels.array).long(),
        classes,
        {name: _fact(info.array[:, column]) for column, name in enumerate(facts[: info.array.shape[1]])},
    )


def _described(matrix: Matrix) -> str:
    return f"{matrix.array.dtype.name} {list(matrix.array.shape)}"


def _fact(column: np.ndarray) -> Tensor:
    values = torch.from_numpy(np.ascontiguousarray(column))
    return values.float() if values.is_floating_point() else values.long()


def join(parts: Sequence[ImageSet]) -> ImageSet:
    """Put parts of one set after each other."""
    if len(parts) == 1:
        return parts[0]
    return ImageSet(
        torch.cat([part.images for part in parts]),
        torch.cat([part.labels for part in parts]),
        parts[0].classes,
        {name: torch.cat([part.metadata[name] for part in parts]) for name in parts[0].metadata},
    )
