from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import torch

from torchcaps._extras import require
from torchcaps.data.imageset import ImageSet, concatenate
from torchcaps.errors import DataError

SIDE = 40


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
    try:
        record = scipy.loadmat(path, variable_names=["affNISTdata"])["affNISTdata"][0, 0]
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
