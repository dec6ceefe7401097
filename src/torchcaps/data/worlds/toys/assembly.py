from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace

import numpy as np

from torchcaps._registry import suggest
from torchcaps.data.worlds.toys.builders import BUILDERS, CATEGORIES
from torchcaps.data.worlds.toys.cameras import directions
from torchcaps.data.worlds.toys.solid import Point, Solid

INSTANCES = 10
"""Designs in each category; toys with higher numbers are made from them with random proportions."""

_AZIMUTHS = [azimuth for azimuth in range(0, 360, 20) for _ in range(7)]
_ALL_DIRECTIONS = directions(_AZIMUTHS, [-90, -60, -30, 0, 30, 60, 90] * 18)


@dataclass(frozen=True)
class Toy:
    """A toy in its place: its parts, and the center of a ball of radius 1 that contains them."""

    solids: tuple[Solid, ...]
    center: Point


def category_index(category: str | int) -> int:
    """The number of a category, given by name or number.

    >>> category_index("plane"), category_index(2)
    (2, 2)
    """
    if category in CATEGORIES:
        return CATEGORIES.index(str(category))
    if isinstance(category, int) and not isinstance(category, bool) and 0 <= category < len(CATEGORIES):
        return category
    raise ValueError(f"unknown category {category!r}: {suggest(category, CATEGORIES)}")


@functools.lru_cache(maxsize=256)
def build_toy(category: str | int, instance: int, *, seed: int = 0) -> Toy:
    """Build a toy and put it on the ground.

    Category and instance decide which parts it has. The seed decides how dark the paint is, the scale along
    each axis (±6 %), and the shift from the origin. Instances from 10 on are the ten designs again, two
    consecutive numbers with the same one, in other proportions.
    """
    name = CATEGORIES[category_index(category)]
    if instance < 0:
        raise ValueError(f"instance must be at least 0, got {instance}")
    design = instance if instance < INSTANCES else instance // 2 % INSTANCES
    generator = random.Random(f"toys/{seed}/{name}/{instance}")
    paint = generator.uniform(0.56, 0.68)
    stretch = np.diag([generator.uniform(0.94, 1.06) for _ in range(3)])
    shift = [generator.uniform(-0.05, 0.05) for _ in range(2)]

    parts = list(BUILDERS[name][design]())
    if instance >= INSTANCES:
        parts = vary_proportions(parts, generator)
    parts = [replace(part.moved(stretch), paint=paint * part.paint) for part in parts]
    high = np.max([part.support(np.eye(3)) for part in parts], axis=0)
    low = -np.max([part.support(-np.eye(3)) for part in parts], axis=0)
    middle = (low + high) / 2
    radius = float(np.max([part.support(_ALL_DIRECTIONS) - _ALL_DIRECTIONS @ middle for part in parts]))
    scale = 0.94 / radius  # leaves room for the shift
    offset = (shift[0] - scale * middle[0], shift[1] - scale * middle[1], -scale * low[2])
    solids = tuple(part.moved(scale * np.eye(3), offset) for part in parts)
    return Toy(solids, (0.0, 0.0, float(scale * (high[2] - low[2]) / 2)))


def vary_proportions(parts: list[Solid], generator: random.Random) -> list[Solid]:
    """Stretch each part along the three axes, by factors that change linearly with its place.

    The factors depend on how far in front and how high a part is, not on its side: both sides of a toy stay
    mirror images, and parts that touch are stretched nearly alike, so that they still touch.

    Args:
        parts: of a design.
        generator: gives three factors per axis: one for the whole (±20 %), one that grows to the front and
            one that grows upwards (each up to ±15 %).
    """
    whole = np.array([generator.uniform(0.8, 1.2) for _ in range(3)])
    slope = np.array([[generator.uniform(-0.15, 0.15) for _ in range(2)] for _ in range(3)])
    centers = np.array([part.center for part in parts])[:, [0, 2]]
    reach = np.abs(centers - centers.mean(0)).max(0).clip(min=1e-6)
    relative = (centers - centers.mean(0)) / reach
    return [part.moved(np.diag(whole * (1 + slope @ place))) for part, place in zip(parts, relative)]


def solids(category: str | int, instance: int, *, seed: int = 0) -> tuple[Solid, ...]:
    """The parts of a toy: on the ground z = 0, facing +x, about 2 long.

    Example:
        >>> sorted({part.shape for part in solids("animal", 0)})
        ['box', 'cone', 'ellipsoid']
    """
    return build_toy(category, instance, seed=seed).solids
