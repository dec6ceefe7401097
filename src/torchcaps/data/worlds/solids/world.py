"""The world of solids: five parts, eight wholes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from torchcaps.data.worlds.toys.cameras import directions
from torchcaps.data.worlds.toys.solid import Solid, rotation

# Of a part among the places below, before wholes are scaled to fit.
_FIRST_SCALE = 0.48
_AZIMUTHS = [azimuth for azimuth in range(0, 360, 20) for _ in range(7)]
_ALL_DIRECTIONS = directions(_AZIMUTHS, [-90, -60, -30, 0, 30, 60, 90] * 18)


@dataclass(frozen=True)
class Part:
    """A kind of part: a unit solid with half-axes `half`, see `torchcaps.data.worlds.toys.solid.Solid`.

    Attributes:
        name: of the part.
        shape: of the solid.
        half: half-axes along x, y, z.
        taper: radius of a cone's far end.
    """

    name: str
    shape: str
    half: tuple[float, float, float]
    taper: float = 0.0


PARTS = (
    Part("box", "box", (0.8, 0.6, 0.45)),
    Part("plate", "box", (1.0, 0.75, 0.16)),
    Part("cylinder", "cylinder", (0.42, 0.42, 1.0), taper=1.0),
    Part("cone", "cone", (0.75, 0.75, 0.8)),
    Part("ellipsoid", "ellipsoid", (0.62, 0.62, 1.0)),
)
"""The kinds of parts. Unit coordinates are those of the solid before it is scaled by `half`."""

PAINT = (0.1, 0.5, 0.13, 0.27)
"""Share of the light that is reflected: everywhere, and in addition where x, y or z are positive."""


def paint(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The paint at points of a part in unit coordinates: the mark that shows its orientation.

    Each eighth of a part has a gray of its own. Three planes cut the surface, so borders between grays are
    visible from everywhere, unless another part is in front.

    >>> paint(*np.array([[-0.5, 0.5], [0.0, 0.2], [0.0, 0.9]])).round(2).tolist()
    [0.1, 1.0]
    """
    base, *shares = PAINT
    reflected = np.full(x.shape, base)
    for share, values in zip(shares, (x, y, z)):
        reflected += share * (values > 0)
    return reflected


@dataclass(frozen=True)
class Place:
    """Where a part belongs in a whole: its kind, its center, and roll, pitch, yaw in degrees."""

    name: str
    center: tuple[float, float, float]
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class SolidWhole:
    """Named parts in a fixed relation to each other; it faces +x, +y is its left, +z is up."""

    name: str
    places: tuple[Place, ...]


WHOLES = (
    # Three wholes made of a box, a cylinder and a cone.
    SolidWhole(
        "tower",
        (
            Place("box", (0.35, 0.1, -0.5)),
            Place("cylinder", (-0.3, -0.3, -0.1), (0, 0, 90)),
            Place("cone", (0.1, 0.4, 0.5)),
        ),
    ),
    SolidWhole(
        "cannon",
        (
            Place("box", (-0.4, 0.2, -0.45), (0, 0, 90)),
            Place("cylinder", (0.2, 0.3, 0.35), (0, 90, 0)),
            Place("cone", (0.25, -0.5, -0.2), (90, 0, 0)),
        ),
    ),
    SolidWhole(
        "drill",
        (
            Place("box", (-0.3, -0.35, 0.35), (90, 0, 0)),
            Place("cylinder", (-0.3, 0.3, -0.4), (90, 0, 0)),
            Place("cone", (0.5, 0.1, 0.1), (0, -90, 0)),
        ),
    ),
    # Three wholes made of a plate, a box, a cylinder and an ellipsoid.
    SolidWhole(
        "plane",
        (
            Place("plate", (0.0, 0.5, 0.0)),
            Place("box", (-0.6, -0.2, 0.35), (0, 90, 0)),
            Place("cylinder", (0.1, -0.4, -0.3), (0, 90, 0)),
            Place("ellipsoid", (0.55, 0.1, 0.45), (0, 90, 0)),
        ),
    ),
    SolidWhole(
        "lamp",
        (
            Place("plate", (0.0, 0.0, -0.7)),
            Place("box", (-0.1, 0.55, 0.1), (0, 0, 90)),
            Place("cylinder", (0.45, -0.2, 0.0)),
            Place("ellipsoid", (-0.4, -0.25, 0.55), (90, 0, 0)),
        ),
    ),
    SolidWhole(
        "swing",
        (
            Place("plate", (0.3, 0.0, 0.65), (0, 0, 90)),
            Place("box", (0.35, 0.45, -0.35), (90, 0, 90)),
            Place("cylinder", (-0.5, 0.2, -0.1), (0, 0, 90)),
            Place("ellipsoid", (0.1, -0.55, -0.3)),
        ),
    ),
    # Two wholes made of all five parts.
    SolidWhole(
        "robot",
        (
            Place("box", (0.0, 0.0, -0.1), (0, 90, 0)),
            Place("plate", (0.1, 0.1, -0.75)),
            Place("cylinder", (0.1, -0.7, 0.0), (0, 90, 0)),
            Place("cone", (-0.1, 0.75, 0.15), (90, 0, 0)),
            Place("ellipsoid", (0.0, 0.0, 0.75), (0, 90, 0)),
        ),
    ),
    SolidWhole(
        "ship",
        (
            Place("box", (-0.5, 0.1, -0.3)),
            Place("plate", (0.2, -0.05, 0.55), (90, 0, 0)),
            Place("cylinder", (0.5, -0.35, -0.35), (90, 0, 0)),
            Place("cone", (-0.45, -0.3, 0.45)),
            Place("ellipsoid", (0.3, 0.6, -0.1)),
        ),
    ),
)
"""Wholes with the same parts, in the same sizes, differ in the relations of these only."""

PART_NAMES = tuple(part.name for part in PARTS)
WHOLE_NAMES = tuple(whole.name for whole in WHOLES)
MAX_PARTS = max(len(whole.places) for whole in WHOLES)


def part_solid(kind: int, pose: np.ndarray) -> Solid:
    """A part with a pose `[4, 4]` as a solid.

    >>> float(part_solid(0, np.eye(4)).support((1, 0, 0)))
    0.8
    """
    part = PARTS[kind]
    rows = (pose[:3, :3] * np.array(part.half)).tolist()
    axes = tuple((float(a), float(b), float(c)) for a, b, c in rows)
    x, y, z = pose[:3, 3].tolist()
    return Solid(part.shape, (x, y, z), (axes[0], axes[1], axes[2]), taper=part.taper)


@cache
def whole_places() -> tuple[np.ndarray, np.ndarray]:
    """Parts of each whole: kinds int64 `[W, S]`, -1 for none, and poses float64 `[W, S, 4, 4]`.

    Wholes are moved so that the middle of their bounding box is the origin, and all are scaled by one common
    factor, so that the largest fits into a ball of radius 1.
    """
    kind = np.full((len(WHOLES), MAX_PARTS), -1, np.int64)
    pose = np.tile(np.eye(4), (len(WHOLES), MAX_PARTS, 1, 1))
    radius = 0.0
    for row, whole in enumerate(WHOLES):
        for column, place in enumerate(whole.places):
            roll, pitch, yaw = place.turn
            kind[row, column] = PART_NAMES.index(place.name)
            pose[row, column, :3, :3] = _FIRST_SCALE * rotation(roll, pitch, yaw)
            pose[row, column, :3, 3] = place.center
        used = range(len(whole.places))
        members = [part_solid(kind[row, column], pose[row, column]) for column in used]
        high = np.max([each.support(np.eye(3)) for each in members], axis=0)
        low = -np.max([each.support(-np.eye(3)) for each in members], axis=0)
        pose[row, : len(whole.places), :3, 3] -= (low + high) / 2
        moved = [part_solid(kind[row, column], pose[row, column]) for column in used]
        radius = max(radius, *(float(each.support(_ALL_DIRECTIONS).max()) for each in moved))
    pose[..., :3, :] /= radius
    return kind, pose


def part_scale() -> float:
    """Scale of every part of a whole of scale 1: no whole can be told by the size of a part."""
    return float(np.linalg.norm(whole_places()[1][0, 0, :3, 0]))
