from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from torchcaps._registry import suggest
from torchcaps.data.worlds.toys.blueprints import BLUEPRINTS, CATEGORIES
from torchcaps.data.worlds.toys.cameras import directions
from torchcaps.data.worlds.toys.lighting import LIGHTS
from torchcaps.data.worlds.toys.picture import pictures
from torchcaps.data.worlds.toys.solid import Point, Solid

INSTANCES = 10
EYES = {"left": slice(0, 1), "right": slice(1, 2), "both": slice(0, 2)}

_AZIMUTHS = [azimuth for azimuth in range(0, 360, 20) for _ in range(7)]
_ALL_ROUND = directions(_AZIMUTHS, [-90, -60, -30, 0, 30, 60, 90] * 18)


@dataclass(frozen=True)
class Toy:
    """A toy on its stage: its parts, and the middle of the ball of radius 1 that holds them."""

    solids: tuple[Solid, ...]
    target: Point


def category_index(category: str | int) -> int:
    """The number of a category given by name or number.

    >>> category_index("plane"), category_index(2)
    (2, 2)
    """
    if category in CATEGORIES:
        return CATEGORIES.index(str(category))
    if isinstance(category, int) and not isinstance(category, bool) and 0 <= category < len(CATEGORIES):
        return category
    raise ValueError(f"unknown category {category!r}: {suggest(category, CATEGORIES)}")


@functools.lru_cache(maxsize=256)
def toy(category: str | int, instance: int, *, seed: int = 0) -> Toy:
    """Build a toy and put it on the stage.

    Parts come from the blueprint. The seed decides what differs between two workshops that build the same
    toy: how dark the paint is, the stretch along each axis (±6 %), and how far from the middle it is put.
    """
    name = CATEGORIES[category_index(category)]
    if not 0 <= instance < INSTANCES:
        raise ValueError(f"instance must be 0 to {INSTANCES - 1}, got {instance}")
    workshop = random.Random(f"toys/{seed}/{name}/{instance}")
    paint = workshop.uniform(0.56, 0.68)
    stretch = np.diag([workshop.uniform(0.94, 1.06) for _ in range(3)])
    aside = [workshop.uniform(-0.05, 0.05) for _ in range(2)]

    parts = [replace(part.moved(stretch), paint=paint * part.paint) for part in BLUEPRINTS[name][instance]()]
    high = np.max([part.supports(np.eye(3)) for part in parts], axis=0)
    low = -np.max([part.supports(-np.eye(3)) for part in parts], axis=0)
    middle = (low + high) / 2
    reach = float(np.max([part.supports(_ALL_ROUND) - _ALL_ROUND @ middle for part in parts]))
    scale = 0.94 / reach  # leaves room for the step aside
    offset = (aside[0] - scale * middle[0], aside[1] - scale * middle[1], -scale * low[2])
    solids = tuple(part.moved(scale * np.eye(3), offset) for part in parts)
    return Toy(solids, (0.0, 0.0, float(scale * (high[2] - low[2]) / 2)))


def solids(category: str | int, instance: int, *, seed: int = 0) -> tuple[Solid, ...]:
    """The parts of a toy as it stands on the stage: on the ground z = 0, looking along +x, about 2 long.

    Example:
        >>> sorted({part.shape for part in solids("animal", 0)})
        ['box', 'cone', 'ellipsoid']
    """
    return toy(category, instance, seed=seed).solids


def render(
    category: str | int,
    instance: int,
    azimuth: float,
    elevation: float,
    lighting: int,
    *,
    size: int = 48,
    shadows: bool = True,
    eye: str = "both",
    seed: int = 0,
) -> Tensor:
    """Picture a toy from anywhere.

    Args:
        category: name or number, see `CATEGORIES`.
        instance: 0 to 9.
        azimuth: degrees, any number; 0 looks the toy in the face.
        elevation: degrees above the ground, 0 to 90.
        lighting: 0 to 5.
        size: pixels along each side.
        shadows: whether the lamps cast them.
        eye: "left", "right" or "both" of the stereo pair.
        seed: of the workshop that built the toy.

    Returns:
        uint8 `[1, size, size]`, or `[2, size, size]` for both eyes.

    Example:
        >>> render("car", 3, azimuth=12.5, elevation=40, lighting=0, eye="left").shape
        torch.Size([1, 48, 48])
    """
    if eye not in EYES:
        raise ValueError(f"unknown eye {eye!r}: {suggest(eye, EYES)}")
    if not 0 <= lighting < len(LIGHTS):
        raise ValueError(f"lighting must be 0 to {len(LIGHTS) - 1}, got {lighting}")
    if not 0 <= elevation <= 90:
        raise ValueError(f"elevation must be 0 to 90 degrees, got {elevation}")
    if not np.isfinite(azimuth):
        raise ValueError(f"azimuth must be a finite number of degrees, got {azimuth}")
    if size < 1:
        raise ValueError(f"size must be at least 1 pixel, got {size}")
    staged = toy(category, instance, seed=seed)
    pairs = pictures(
        staged.solids,
        np.array(staged.target),
        azimuth,
        [elevation],
        [LIGHTS[lighting]],
        size=size,
        shadows=shadows,
    )
    return torch.from_numpy(pairs[0, 0, EYES[eye]])
