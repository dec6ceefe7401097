from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchcaps.data.worlds.toys.cameras import Cameras
from torchcaps.data.worlds.toys.raycast import Components, Hits
from torchcaps.data.worlds.toys.solid import SHAPES, Solid

_FAR = np.float32(100)
_ZERO = np.float32(0)


@dataclass(frozen=True)
class Surface:
    """The N points where the rays end, on the toy or on the ground, in the order of the rays.

    Attributes:
        point: x, y, z, each float32 `[N]`.
        toy: int64 `[M]`, which of the N points are on the toy.
        normal: x, y, z, each float32 `[M]`: the outward unit normals of those.
        paint: float32 `[M]`.
    """

    point: Components
    toy: np.ndarray
    normal: Components
    paint: np.ndarray


def surface(solids: Sequence[Solid], cameras: Cameras, hits: Hits) -> Surface:
    """Where each ray of perspective cameras ends: on the toy, or on the ground z = 0 behind it."""
    size = hits.depth.shape[-1]
    u = v = cameras.pixel_centers(size).astype(np.float32)
    position, right, down, forward = (
        vectors.astype(np.float32).T[:, :, None, None]
        for vectors in (cameras.position, cameras.right, cameras.down, cameras.forward)
    )
    across = forward + right * u
    along = down * v[:, None]
    dx, dy, dz = (across[axis] + along[axis] for axis in range(3))
    # Rays that point up never reach the ground; they end far away, where there is no shadow either.
    with np.errstate(divide="ignore"):
        ground = np.minimum(np.where(dz < 0, -position[2] / dz, _FAR), _FAR)
    depth = np.where(np.isinf(hits.depth), ground, hits.depth)
    point = tuple((position[axis] + depth * d).reshape(-1) for axis, d in enumerate((dx, dy, dz)))
    toy = np.flatnonzero(np.isfinite(hits.depth))
    part = hits.part.reshape(-1)[toy]
    normal = _normals(solids, (point[0][toy], point[1][toy], point[2][toy]), part)
    paint = np.array([solid.paint for solid in solids], dtype=np.float32)[part]
    return Surface((point[0], point[1], point[2]), toy, normal, paint)


def _normals(solids: Sequence[Solid], point: Components, part: np.ndarray) -> Components:
    """Outward unit normals at points `[M]` on the surface of the solids numbered `part` `[M]`."""
    to_unit = np.linalg.inv(np.array([solid.axes for solid in solids]))
    matrix = to_unit.astype(np.float32).transpose(1, 2, 0)[:, :, part]
    center = np.array([solid.center for solid in solids], dtype=np.float32).T[:, part]
    x, y, z = (point[axis] - center[axis] for axis in range(3))
    local = [row[0] * x + row[1] * y + row[2] * z for row in matrix]
    shape = np.array([SHAPES.index(solid.shape) for solid in solids])[part]
    taper = np.array([solid.taper for solid in solids], dtype=np.float32)[part]
    gradient = unit_normals(local[0], local[1], local[2], shape, taper)
    # Normals are transformed by the inverse transpose.
    normal = [
        matrix[0, k] * gradient[0] + matrix[1, k] * gradient[1] + matrix[2, k] * gradient[2] for k in range(3)
    ]
    length = np.sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2])
    return normal[0] / length, normal[1] / length, normal[2] / length


def unit_normals(
    x: np.ndarray, y: np.ndarray, z: np.ndarray, shape: np.ndarray, taper: np.ndarray
) -> Components:
    """Directions (of any length) out of the unit solids at points on their surface."""
    ax, ay, az = np.abs(x), np.abs(y), np.abs(z)
    box = shape == SHAPES.index("box")
    on_x = box & (ax >= ay) & (ax >= az)
    on_y = box & ~on_x & (ay >= az)
    slope, middle = (taper - 1) / 2, (taper + 1) / 2
    radius = middle + slope * z
    revolved = (shape == SHAPES.index("cylinder")) | (shape == SHAPES.index("cone"))
    # Of the lids and the side, the point lies on the one that it is outside of, or least inside.
    on_lid = revolved & (az - 1 > np.sqrt(x * x + y * y) - radius)
    on_side = revolved & ~on_lid
    flat_z = (box & ~on_x & ~on_y) | on_lid
    normal_x = np.where(on_y | flat_z, _ZERO, x)
    normal_y = np.where(on_x | flat_z, _ZERO, y)
    normal_z = np.where(on_x | on_y, _ZERO, np.where(on_side, -slope * radius, z))
    return normal_x, normal_y, normal_z
