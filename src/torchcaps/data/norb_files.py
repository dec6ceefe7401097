from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchcaps.data.augment import resize
from torchcaps.data.errors import DataError
from torchcaps.data.imageset import ImageSet
from torchcaps.data.norb_format import parse_matrix
from torchcaps.data.read_bytes import read_bytes
from torchcaps.data.sources import Content

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
