"""The toys in files of smallNORB's format: rendered on first use, kept in the cache."""

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
from torchcaps.data.worlds.toys.builders import CATEGORIES
from torchcaps.data.worlds.toys.rendering import render_table
from torchcaps.data.worlds.toys.table import SPLIT_INSTANCES, Table, table
from torchcaps.errors import DataError

VERSION = 1
"""Increased whenever the same options give other images, so that old files are not used for new ones."""


def stem(split: str, size: int) -> str:
    """The common part of a split's file names, which follow smallNORB's.

    >>> stem("train", 48)
    'toys-5x46789x9x18x6x2x48x48-training'
    """
    instances = "".join(map(str, SPLIT_INSTANCES[split]))
    return f"toys-{len(CATEGORIES)}x{instances}x9x18x6x2x{size}x{size}-{ROLE[split]}"


def variant(*, shadows: bool, seed: int) -> str:
    """The folder of one variant of the set.

    >>> variant(shadows=True, seed=0)
    'v1-seed0-shadows'
    """
    return f"v{VERSION}-seed{seed}-{'shadows' if shadows else 'plain'}"


def write_files(folder: Path, name: str, images: np.ndarray, rows: Table) -> None:
    """Write the dat, cat and info files; dat last, so that a dat file is never without the others."""
    write_matrix(folder / f"{name}-info.mat", rows.info)
    write_matrix(folder / f"{name}-cat.mat", rows.category)
    write_matrix(folder / f"{name}-dat.mat", images)


def read_files(folder: Path, name: str, *, stereo: bool) -> ImageSet | None:
    """Read the three files, plain or gzipped; None if one is missing."""
    paths = [existing(folder / f"{name}-{kind}.mat") for kind in KINDS]
    existing_paths = [path for path in paths if path is not None]
    if len(existing_paths) < len(KINDS):
        return None
    return make_part(read_contents(existing_paths), CATEGORIES, stereo=stereo, size=None)


def find(
    split: str, *, data_dir: str | os.PathLike[str] | None, stereo: bool, size: int, shadows: bool, seed: int
) -> ImageSet | None:
    """The complete split if its files exist."""
    name, kind = stem(split, size), variant(shadows=shadows, seed=seed)
    for place in user_folders("toys", data_dir):
        images = read_files(place / kind, name, stereo=stereo)
        if images is not None:
            return images
    try:
        return read_files(cache_dir() / "toys" / kind, name, stereo=stereo)
    except DataError:
        return None  # damaged in the cache: it will be rendered again


def find_or_render(
    split: str, *, data_dir: str | os.PathLike[str] | None, stereo: bool, size: int, shadows: bool, seed: int
) -> ImageSet:
    """The complete split, rendered and kept in the cache if there are no files yet; other processes wait."""

    def find_files() -> ImageSet | None:
        return find(split, data_dir=data_dir, stereo=stereo, size=size, shadows=shadows, seed=seed)

    images = find_files()
    if images is not None:
        return images
    folder = cache_dir() / "toys" / variant(shadows=shadows, seed=seed)
    try:
        with locked(folder):
            images = find_files()  # another process may have rendered it while this one waited
            if images is not None:
                return images
            rows = table(split, seed=seed)
            pixels = render_table(rows, size=size, shadows=shadows, seed=seed)
            write_files(folder, stem(split, size), pixels, rows)
    except OSError as fault:
        raise DataError(
            f"{folder}: the toys cannot be written there ({fault.strerror or fault}); "
            f"set {CACHE_VARIABLE} to a folder that can be written"
        ) from fault
    return as_image_set(pixels, rows, stereo=stereo)


def as_image_set(images: np.ndarray, rows: Table, *, stereo: bool) -> ImageSet:
    """The image set that writing the files and reading them again would give."""
    return ImageSet(
        torch.from_numpy(images if stereo else np.ascontiguousarray(images[:, :1])),
        torch.from_numpy(rows.category).long(),
        CATEGORIES,
        {fact: torch.from_numpy(rows.info[:, column]).long() for column, fact in enumerate(VIEW_FACTS)},
    )
