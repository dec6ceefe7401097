"""The set in smallNORB's files: kept where the user's other data is, made on first use."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from torchcaps.data.datasets.norb import KINDS, ROLE, VIEW_FACTS, make_part, read_contents
from torchcaps.data.fetch.cache import CACHE_VARIABLE, cache_dir, locked, user_folders
from torchcaps.data.fetch.collection import existing
from torchcaps.data.formats.matrix import write_matrix
from torchcaps.data.imageset import ImageSet
from torchcaps.data.worlds.toys.blueprints import CATEGORIES
from torchcaps.data.worlds.toys.photograph import photograph
from torchcaps.data.worlds.toys.table import SPLIT_INSTANCES, Table, table
from torchcaps.errors import DataError

VERSION = 1
"""Goes up whenever the same options would give other pictures, so that old files are not taken for new."""


def stem(split: str, size: int) -> str:
    """The common part of a split's file names, built as smallNORB's.

    >>> stem("train", 48)
    'toys-5x46789x9x18x6x2x48x48-training'
    """
    instances = "".join(map(str, SPLIT_INSTANCES[split]))
    return f"toys-{len(CATEGORIES)}x{instances}x9x18x6x2x{size}x{size}-{ROLE[split]}"


def variant(*, shadows: bool, seed: int) -> str:
    """The folder of a variant of the set.

    >>> variant(shadows=True, seed=0)
    'v1-seed0-shadows'
    """
    return f"v{VERSION}-seed{seed}-{'shadows' if shadows else 'plain'}"


def write_files(folder: Path, name: str, images: np.ndarray, rows: Table) -> None:
    """Write dat, cat and info. The dat file comes last: where it is, all three are."""
    write_matrix(folder / f"{name}-info.mat", rows.info)
    write_matrix(folder / f"{name}-cat.mat", rows.category)
    write_matrix(folder / f"{name}-dat.mat", images)


def read_files(folder: Path, name: str, *, stereo: bool) -> ImageSet | None:
    """Read the three files, plain or gzipped; None if they are not all there."""
    paths = [existing(folder / f"{name}-{kind}.mat") for kind in KINDS]
    found = [path for path in paths if path is not None]
    if len(found) < len(KINDS):
        return None
    return make_part(read_contents(found), CATEGORIES, stereo=stereo, size=None)


def find(
    split: str, *, data_dir: str | os.PathLike[str] | None, stereo: bool, size: int, shadows: bool, seed: int
) -> ImageSet | None:
    """The whole split if somebody has made it already."""
    name, kind = stem(split, size), variant(shadows=shadows, seed=seed)
    for place in user_folders("toys", data_dir):
        images = read_files(place / kind, name, stereo=stereo)
        if images is not None:
            return images
    try:
        return read_files(cache_dir() / "toys" / kind, name, stereo=stereo)
    except DataError:
        return None  # damaged in the cache: it will be made anew


def find_or_make(
    split: str, *, data_dir: str | os.PathLike[str] | None, stereo: bool, size: int, shadows: bool, seed: int
) -> ImageSet:
    """The whole split, made and kept in the cache if it is nowhere yet; other processes wait meanwhile."""

    def look() -> ImageSet | None:
        return find(split, data_dir=data_dir, stereo=stereo, size=size, shadows=shadows, seed=seed)

    found = look()
    if found is not None:
        return found
    folder = cache_dir() / "toys" / variant(shadows=shadows, seed=seed)
    try:
        with locked(folder):
            found = look()  # another process may have made it while this one waited
            if found is not None:
                return found
            rows = table(split, seed=seed)
            images = photograph(rows, size=size, shadows=shadows, seed=seed)
            write_files(folder, stem(split, size), images, rows)
    except OSError as fault:
        raise DataError(
            f"{folder}: the toys cannot be kept there ({fault.strerror or fault}); "
            f"let {CACHE_VARIABLE} name a folder that can be written"
        ) from fault
    return as_image_set(images, rows, stereo=stereo)


def as_image_set(images: np.ndarray, rows: Table, *, stereo: bool) -> ImageSet:
    """The same as writing the files and reading them again."""
    return ImageSet(
        torch.from_numpy(images if stereo else np.ascontiguousarray(images[:, :1])),
        torch.from_numpy(rows.category).long(),
        CATEGORIES,
        {fact: torch.from_numpy(rows.info[:, column]).long() for column, fact in enumerate(VIEW_FACTS)},
    )
