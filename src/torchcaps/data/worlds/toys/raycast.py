"""Intersections of rays with solids, for several cameras at a time.

Pixels are computed only with operations that IEEE 754 rounds exactly (no matrix products, no fused or
reducing ones), so that an image is the same to the last bit however the work is divided. The operations are
numpy's rather than torch's: the arrays are small, and distributing each operation over torch's threads costs
ten times what it saves as soon as the cores have other work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from torchcaps.data.worlds.toys.cameras import Cameras
from torchcaps.data.worlds.toys.solid import Solid

Components = tuple[np.ndarray, np.ndarray, np.ndarray]

_MISS = np.float32(np.inf)
_ALMOST_ZERO = np.float32(1e-12)
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))


@dataclass(frozen=True)
class Hits:
    """The first solid on each ray.

    Attributes:
        depth: float32 `[V, S, S]`, along the camera's forward axis; infinite where a ray hits no solid.
        part: uint8 `[V, S, S]`, the number of the solid; without meaning where depth is infinite.
    """

    depth: np.ndarray
    part: np.ndarray


def cast_rays(solids: Sequence[Solid], cameras: Cameras, size: int) -> Hits:
    """Find the first solid on each of `size` × `size` rays of each camera.

    >>> from torchcaps.data.worlds.toys.cameras import look_from
    >>> from torchcaps.data.worlds.toys.solid import box
    >>> hits = cast_rays([box((0, 0, 0), (1, 0.5, 0.5))], look_from([0], [0], np.zeros(3)), 3)
    >>> hits.depth[0, 1]
    array([inf,  5., inf], dtype=float32)
    """
    if len(solids) > 255:
        raise ValueError(f"a scene must have at most 255 solids, got {len(solids)}")
    depth = np.full((len(cameras), size, size), np.inf, dtype=np.float32)
    part = np.zeros((len(cameras), size, size), dtype=np.uint8)
    centers = cameras.pixel_centers(size)
    for number, solid in enumerate(solids):
        rows, columns = _window(solid, cameras, centers)
        if rows.start >= rows.stop or columns.start >= columns.stop:
            continue
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            entry = _depth_of(solid, cameras, centers[columns], centers[rows])
            closer = entry < depth[:, rows, columns]  # a miss is NaN or infinite and loses
        np.copyto(depth[:, rows, columns], entry, where=closer)
        np.copyto(part[:, rows, columns], np.uint8(number), where=closer)
    return Hits(depth, part)


def _window(solid: Solid, cameras: Cameras, centers: np.ndarray) -> tuple[slice, slice]:
    """The rows and columns outside of which no camera can see the solid: most solids are small."""
    corners = _CORNERS @ np.array(solid.axes).T + np.array(solid.center)
    u, v, depth = cameras.project(corners)
    if not cameras.parallel and depth.min() <= 0:
        return slice(0, len(centers)), slice(0, len(centers))
    step = centers[1] - centers[0] if len(centers) > 1 else 1.0

    def span(values: np.ndarray) -> slice:
        first, last = np.searchsorted(centers, (values.min() - step, values.max() + step))
        return slice(int(first), int(last))

    return span(v), span(u)


def _depth_of(solid: Solid, cameras: Cameras, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Depth `[V, rows, columns]` at which rays enter the solid."""
    to_unit = np.linalg.inv(np.array(solid.axes))

    def unit(vectors: np.ndarray) -> np.ndarray:
        return (vectors[:, None, :] * to_unit).sum(-1)

    # Rays start at the plane through the solid's center: from the camera, float32 would lose a thin solid's
    # edge in the difference of two large squares.
    middle = ((np.array(solid.center) - cameras.position) * cameras.forward).sum(-1, keepdims=True)
    right, down, forward = unit(cameras.right), unit(cameras.down), unit(cameras.forward)
    on_plane = unit(cameras.position + middle * cameras.forward - np.array(solid.center))
    if cameras.parallel:
        origin = _affine(on_plane, right, down, u, v)
        direction = _affine(forward, None, None, u, v)
    else:
        origin = _affine(on_plane, middle * right, middle * down, u, v)
        direction = _affine(forward, right, down, u, v)
    return ENTRY[solid.shape](origin, direction, solid.taper) + middle.astype(np.float32)[:, :, None]


def _affine(
    constant: np.ndarray, per_u: np.ndarray | None, per_v: np.ndarray | None, u: np.ndarray, v: np.ndarray
) -> Components:
    """constant + u·per_u + v·per_v as x, y, z, each `[V, rows, columns]` (or `[V, 1, 1]` if constant)."""

    def component(axis: int) -> np.ndarray:
        start = constant[:, axis, None, None]
        if per_u is None or per_v is None:
            return start.astype(np.float32)
        along_columns = start + per_u[:, axis, None, None] * u
        along_rows = per_v[:, axis, None, None] * v[:, None]
        return along_columns.astype(np.float32) + along_rows.astype(np.float32)

    return component(0), component(1), component(2)


def _enter_ellipsoid(origin: Components, direction: Components, taper: float) -> np.ndarray:
    (ox, oy, oz), (dx, dy, dz) = origin, direction
    a = dx * dx + dy * dy + dz * dz
    b = ox * dx + oy * dy + oz * dz
    c = ox * ox + oy * oy + oz * oz - 1
    return -(b + np.sqrt(b * b - a * c)) / a


def _slab(origin: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a ray enters and leaves -1 ≤ coordinate ≤ 1."""
    inverse = 1 / direction
    one, other = (-1 - origin) * inverse, (1 - origin) * inverse
    return np.minimum(one, other), np.maximum(one, other)


def _enter_box(origin: Components, direction: Components, taper: float) -> np.ndarray:
    slabs = [_slab(o, d) for o, d in zip(origin, direction)]
    enter = np.maximum(np.maximum(slabs[0][0], slabs[1][0]), slabs[2][0])
    leave = np.minimum(np.minimum(slabs[0][1], slabs[1][1]), slabs[2][1])
    return np.where(enter < leave, enter, _MISS)


def _enter_cylinder(origin: Components, direction: Components, taper: float) -> np.ndarray:
    (ox, oy, oz), (dx, dy, dz) = origin, direction
    a = np.maximum(dx * dx + dy * dy, _ALMOST_ZERO)  # zero along the axis, where the side is never hit
    b = ox * dx + oy * dy
    root = np.sqrt(b * b - a * (ox * ox + oy * oy - 1))
    lid_enter, lid_leave = _slab(oz, dz)
    enter = np.maximum((-b - root) / a, lid_enter)
    leave = np.minimum((-b + root) / a, lid_leave)
    return np.where(enter < leave, enter, _MISS)


def _enter_cone(origin: Components, direction: Components, taper: float) -> np.ndarray:
    (ox, oy, oz), (dx, dy, dz) = origin, direction
    slope, middle = (taper - 1) / 2, (taper + 1) / 2
    radius = middle + slope * oz  # of the cone at the height of the origin
    a = dx * dx + dy * dy - (slope * slope) * (dz * dz)
    b = ox * dx + oy * dy - slope * (dz * radius)
    c = ox * ox + oy * oy - radius * radius
    # a is zero for rays as steep as the side; this form of the roots then avoids 0 / 0.
    outer = -(b + np.copysign(np.sqrt(b * b - a * c), b))
    nearest = np.full_like(outer, _MISS)
    for t in (outer / a, c / outer):
        # The side is one half of a double cone: the other half lies beyond |z| = 1.
        nearest = np.minimum(nearest, np.where(np.abs(oz + t * dz) <= 1, t, _MISS))
    for height, lid_radius in ((-1.0, 1.0), (1.0, taper)):
        if lid_radius > 0:
            t = (height - oz) / dz
            x, y = ox + t * dx, oy + t * dy
            nearest = np.minimum(nearest, np.where(x * x + y * y <= lid_radius * lid_radius, t, _MISS))
    return nearest


ENTRY: dict[str, Callable[[Components, Components, float], np.ndarray]] = {
    "ellipsoid": _enter_ellipsoid,
    "box": _enter_box,
    "cylinder": _enter_cylinder,
    "cone": _enter_cone,
}
"""Depth at which rays enter a unit solid, relative to their origins; a miss is NaN or infinite."""
