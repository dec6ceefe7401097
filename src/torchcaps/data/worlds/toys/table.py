"""The rows of the toys data set: category, instance and viewpoint of each image, coded as in smallNORB."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from torchcaps.data.worlds.toys.builders import CATEGORIES

SPLIT_INSTANCES = {"train": (4, 6, 7, 8, 9), "test": (0, 1, 2, 3, 5)}
"""The toys of smallNORB's split: ten designs, five of them in each split."""
TOYS = 5
VARIED_TEST_TOYS = 10
ELEVATIONS = tuple(range(9))
AZIMUTHS = tuple(range(0, 36, 2))
LIGHTINGS = tuple(range(6))


class Table(NamedTuple):
    """Facts about N images.

    Attributes:
        category: int32 `[N]`.
        info: int32 `[N, 4]`: instance, elevation, azimuth, lighting.
    """

    category: np.ndarray
    info: np.ndarray


def azimuth_degrees(code: int) -> float:
    """The azimuth that smallNORB writes as 0, 2, … 34.

    >>> azimuth_degrees(34)
    340.0
    """
    return 10.0 * code


def elevation_degrees(code: int) -> float:
    """The elevation that smallNORB writes as 0 … 8.

    >>> elevation_degrees(8)
    70.0
    """
    return 30.0 + 5.0 * code


def instances(split: str, toys_per_category: int = TOYS) -> tuple[int, ...]:
    """The toys of a split.

    Five are those of smallNORB's split: the test split has other designs than the train split. From 10 on,
    the designs are the same ten in both splits, and toys are made from them with random proportions: even
    numbers for training, odd ones for the test, which always has ten toys.

    >>> instances("test"), instances("train", 12)[-1], instances("test", 12)[:2]
    ((0, 1, 2, 3, 5), 32, (11, 13))
    """
    if toys_per_category == TOYS:
        return SPLIT_INSTANCES[split]
    count = toys_per_category if split == "train" else VARIED_TEST_TOYS
    return tuple(10 + 2 * toy + (split == "test") for toy in range(count))


def table(
    split: str,
    *,
    seed: int = 0,
    toys_per_category: int = TOYS,
    elevations: Sequence[int] = ELEVATIONS,
    azimuths: Sequence[int] = AZIMUTHS,
    lightings: Sequence[int] = LIGHTINGS,
) -> Table:
    """List the images of a split, or only those of some views.

    Categories run 0 … 4, 0 … 4, …, as in smallNORB; the five images of a round have the same view. Rounds are
    shuffled by the seed, so that the first thousand images are a fair sample. A selection of views keeps the
    order of the complete split.

    >>> rows = table("train", lightings=[0])
    >>> rows.category[:6].tolist(), rows.info.shape
    ([0, 1, 2, 3, 4, 0], (4050, 4))
    """
    rounds = list(itertools.product(instances(split, toys_per_category), ELEVATIONS, AZIMUTHS, LIGHTINGS))
    random.Random(f"toys/order/{seed}/{split}").shuffle(rounds)
    wanted = [
        (instance, elevation, azimuth, lighting)
        for instance, elevation, azimuth, lighting in rounds
        if elevation in elevations and azimuth in azimuths and lighting in lightings
    ]
    info = np.repeat(np.array(wanted, dtype=np.int32).reshape(-1, 4), len(CATEGORIES), axis=0)
    category = np.tile(np.arange(len(CATEGORIES), dtype=np.int32), len(wanted))
    return Table(category, info)
