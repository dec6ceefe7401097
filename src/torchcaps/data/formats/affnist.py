from __future__ import annotations

import io
import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import torch

from torchcaps._extras import require
from torchcaps._files import MAX_BYTES, read_bytes
from torchcaps.data.imageset import ImageSet, concatenate
from torchcaps.errors import DataError

SIDE = 40
HEADER = 128
ELEMENT_TYPES = {*range(1, 8), 9, *range(12, 19)}
MATRIX, COMPRESSED = 14, 15
MAX_DEPTH = 10


def read_affnist(path: str | os.PathLike[str]) -> ImageSet:
    """Read a published affNIST file (`test.mat`, …), or all `.mat` files of a folder (`test_batches`).

    Returns:
        Images `[N, 1, 40, 40]` and labels `[N]`.

    Raises:
        DataError: a file is missing or damaged; the message names it.
    """
    place = Path(path).expanduser()
    files = sorted(place.glob("*.mat"), key=_by_number) if place.is_dir() else [place]
    if not files:
        raise DataError.in_file(place, "no .mat files in this folder")
    return concatenate([_read_file(file) for file in files])


def _by_number(path: Path) -> tuple[int, str]:
    number = re.search(r"\d+", path.stem)
    return (int(number[0]) if number else 0, path.name)


def _read_file(path: Path) -> ImageSet:
    scipy = require("scipy.io", extra="train", purpose="reading affNIST's .mat files")
    content = read_bytes(path)
    try:
        check_elements(content)
        record = scipy.loadmat(io.BytesIO(content), variable_names=["affNISTdata"])["affNISTdata"][0, 0]
        pixels, labels = np.asarray(record["image"]), np.asarray(record["label_int"]).reshape(-1)
    except Exception as fault:  # scipy raises many kinds for a damaged file, zlib's and struct's among them
        raise DataError.in_file(path, f"it is not an affNIST file that can be read ({fault})") from fault
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape != (SIDE * SIDE, len(labels)):
        raise DataError.in_file(
            path,
            f"{pixels.dtype} images {list(pixels.shape)} for {len(labels)} labels; [1600, N] was expected",
        )
    if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
        raise DataError.in_file(path, f"labels {labels.min()} to {labels.max()}; 0 to 9 were expected")
    images = np.ascontiguousarray(pixels.T).reshape(-1, 1, SIDE, SIDE)
    return ImageSet(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)), tuple("0123456789"))


def check_elements(content: bytes | bytearray) -> None:
    """Check types and sizes of all elements of a MATLAB 5 file: scipy crashes at an unknown type.

    An element is, in the byte order of the header: its type and its size as 32-bit numbers, then its data,
    filled up to a multiple of 8 bytes. A matrix is made of elements; a compressed element unpacks to some.

    Raises:
        ValueError: the content is not such a file.
    """
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[HEADER - 2 : HEADER]))
    if order is None:
        raise ValueError("it has no header of a MATLAB 5 file")
    _check_elements(memoryview(content)[HEADER:], order, 0)


def _check_elements(content: memoryview, order: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("its elements are nested too deeply")
    place = 0
    while place < len(content):
        if len(content) - place < 8:
            raise ValueError("it is cut short")
        kind, size = struct.unpack_from(f"{order}II", content, place)
        small = kind >> 16  # the size of an element whose data are in the tag itself
        if (kind & 0xFFFF if small else kind) not in ELEMENT_TYPES or small > 4:
            raise ValueError(f"an element has the unknown type {kind}")
        place += 8
        if small:
            continue
        if size > len(content) - place:
            raise ValueError(f"an element of {size} bytes is cut short")
        data = content[place : place + size]
        if kind == MATRIX:
            _check_elements(data, order, depth + 1)
        elif kind == COMPRESSED:
            unpacked = zlib.decompressobj().decompress(data, MAX_BYTES)
            _check_elements(memoryview(unpacked), order, depth + 1)
        place += size if kind == COMPRESSED else size + -size % 8
