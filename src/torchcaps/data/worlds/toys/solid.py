"""The four solids that every toy is made of, and functions to place them.

A toy stands on the ground z = 0 and faces +x; +y is its left, +z is up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

Point = tuple[float, float, float]

SHAPES = ("ellipsoid", "box", "cylinder", "cone")


@dataclass(frozen=True)
class Solid:
    """One part of a toy: a unit solid, scaled, rotated and moved.

    The unit solids all fit into the cube [-1, 1]³: the ball, the cube, the cylinder around z, and the cone
    around z whose radius falls from 1 at z = -1 to `taper` at z = 1.

    Attributes:
        shape: one of `SHAPES`.
        center: where the center of the unit solid goes.
        axes: 3 rows of 3; column k is where the unit solid's k-th half-axis goes.
        taper: a cone's radius at its far end, as a share of that at its base.
        paint: how much light the surface reflects, 0..1.

    Example:
        >>> float(cone((0, 0, 0), (0, 0, 2), 0.5).support((0, 0, 1)))
        2.0
    """

    shape: str
    center: Point
    axes: tuple[Point, Point, Point]
    taper: float = 0.0
    paint: float = 1.0

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"shape must be one of {', '.join(SHAPES)}, got {self.shape!r}")
        if abs(np.linalg.det(np.array(self.axes))) < 1e-9:
            raise ValueError(f"a {self.shape} must have a volume, got axes {self.axes}")

    def support(self, directions: np.ndarray | Sequence[float]) -> np.ndarray:
        """The largest coordinate of the solid along unit directions `[K, 3]` or `[3]`: `[K]` or a number."""
        directions = np.asarray(directions)
        x, y, z = (directions @ np.array(self.axes)).T
        radial = np.sqrt(x * x + y * y)
        reach = {
            "ellipsoid": np.sqrt(x * x + y * y + z * z),
            "box": abs(x) + abs(y) + abs(z),
            "cylinder": radial + abs(z),
            "cone": np.maximum(radial - z, self.taper * radial + z),
        }[self.shape]
        return directions @ np.array(self.center) + reach

    def moved(self, stretch: np.ndarray, offset: Point = (0.0, 0.0, 0.0)) -> Solid:
        """The solid after multiplying space by a matrix `[3, 3]` and moving it by `offset`."""
        center = stretch @ np.array(self.center) + np.array(offset)
        return replace(self, center=_point(center), axes=_matrix(stretch @ np.array(self.axes)))


def _point(values: np.ndarray) -> Point:
    x, y, z = (float(value) for value in values)
    return x, y, z


def _matrix(values: np.ndarray) -> tuple[Point, Point, Point]:
    first, second, third = (_point(row) for row in values)
    return first, second, third


def rotation(roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0) -> np.ndarray:
    """Rotation `[3, 3]` by degrees about x, then y (positive lifts the nose), then z (positive is left)."""
    a, b, c = (math.radians(angle) for angle in (roll, -pitch, yaw))
    about_x = np.array([[1, 0, 0], [0, math.cos(a), -math.sin(a)], [0, math.sin(a), math.cos(a)]])
    about_y = np.array([[math.cos(b), 0, math.sin(b)], [0, 1, 0], [-math.sin(b), 0, math.cos(b)]])
    about_z = np.array([[math.cos(c), -math.sin(c), 0], [math.sin(c), math.cos(c), 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def ellipsoid(
    center: Point, half: Point, *, roll: float = 0, pitch: float = 0, yaw: float = 0, paint: float = 1
) -> Solid:
    """An ellipsoid with half-axes `half` along x, y, z before the rotation."""
    axes = rotation(roll, pitch, yaw) @ np.diag(half)
    return Solid("ellipsoid", _point(np.array(center)), _matrix(axes), paint=paint)


def box(
    center: Point, half: Point, *, roll: float = 0, pitch: float = 0, yaw: float = 0, paint: float = 1
) -> Solid:
    """A box with half-edges `half` along x, y, z before the rotation."""
    axes = rotation(roll, pitch, yaw) @ np.diag(half)
    return Solid("box", _point(np.array(center)), _matrix(axes), paint=paint)


def _axes_between(
    start: np.ndarray, end: np.ndarray, across: Point | None, radii: tuple[float, float]
) -> np.ndarray:
    """Half-axes of a solid of revolution from `start` to `end`, its first radius lying along `across`."""
    along = (end - start) / 2
    unit = along / np.linalg.norm(along)
    if across is None:
        across = (0.0, 1.0, 0.0) if abs(unit[1]) < 0.9 else (1.0, 0.0, 0.0)
    first = np.array(across, dtype=float) - np.dot(across, unit) * unit
    first /= np.linalg.norm(first)
    return np.stack([radii[0] * first, radii[1] * np.cross(unit, first), along], axis=1)


def cylinder(
    start: Point, end: Point, radius: float, *, flat: float = 1, across: Point | None = None, paint: float = 1
) -> Solid:
    """A cylinder from `start` to `end`.

    Args:
        start: center of one end.
        end: center of the other.
        radius: half the width along `across`.
        flat: half the thickness at right angles to it, as a share of `radius`; 1 is a round cylinder.
        across: direction of the width, by default left to right.
        paint: how much light the surface reflects.
    """
    a, b = np.array(start, dtype=float), np.array(end, dtype=float)
    axes = _axes_between(a, b, across, (radius, flat * radius))
    return Solid("cylinder", _point((a + b) / 2), _matrix(axes), taper=1.0, paint=paint)


def cone(
    base: Point,
    tip: Point,
    radius: float,
    *,
    taper: float = 0,
    flat: float = 1,
    across: Point | None = None,
    paint: float = 1,
) -> Solid:
    """A cone from `base` to `tip`, cut off where its radius has fallen to `taper` times that of the base.

    A very flat cone makes a triangular wing: see `cylinder` for `flat` and `across`.
    """
    a, b = np.array(base, dtype=float), np.array(tip, dtype=float)
    axes = _axes_between(a, b, across, (radius, flat * radius))
    return Solid("cone", _point((a + b) / 2), _matrix(axes), taper=taper, paint=paint)


def both_sides(*parts: Solid) -> list[Solid]:
    """Each part and its mirror image on the other side of the toy (y becomes -y).

    >>> [part.center for part in both_sides(ellipsoid((1, 2, 3), (1, 1, 1)))]
    [(1.0, 2.0, 3.0), (1.0, -2.0, 3.0)]
    """
    # Every unit solid is its own mirror image, so mirroring the axes mirrors the solid.
    mirror = np.diag([1.0, -1.0, 1.0])
    return [side for part in parts for side in (part, part.moved(mirror))]


def wheels(*places: tuple[float, float], radius: float, width: float, paint: float = 0.45) -> list[Solid]:
    """Pairs of wheels on the ground, each pair at (x, y) and (x, -y), y being the middle of the tyre."""
    return [
        wheel
        for x, y in places
        for wheel in both_sides(
            cylinder((x, y - width / 2, radius), (x, y + width / 2, radius), radius, paint=paint)
        )
    ]
