from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from torchcaps.data.toys.cameras import Cameras
from torchcaps.data.toys.raycast import Components, Hits
from torchcaps.data.toys.solids import SHAPES, Solid

_FAR = 100.0


@dataclass(frozen=True)
class Surface:
    """The N places that the rays met, toy or ground, in the order of the rays.

    Attributes:
        point: x, y, z, each float32 `[N]`.
        toy: int64 `[M]`, which of the N places are on the toy rather than on the ground.
        normal: x, y, z, each float32 `[M]`: the outward unit normals of those.
        paint: float32 `[M]`.
    """

    point: Components
    toy: Tensor
    normal: Components
    paint: Tensor


def surface(solids: Sequence[Solid], cameras: Cameras, hits: Hits) -> Surface:
    """What is at the end of each ray of perspective cameras: the hits, and behind them the ground z = 0."""
    size = hits.depth.shape[-1]
    u = v = torch.from_numpy(cameras.pixel_centres(size).astype(np.float32))
    position, right, down, forward = (
        torch.from_numpy(vectors.astype(np.float32)).T[:, :, None, None]
        for vectors in (cameras.position, cameras.right, cameras.down, cameras.forward)
    )
    across = forward + right * u
    along = down * v[:, None]
    dx, dy, dz = (across[axis] + along[axis] for axis in range(3))
    # Rays that look up never reach the ground; they end far away on it, which no shadow reaches either.
    ground = torch.where(dz < 0, -position[2] / dz, _FAR).clamp(max=_FAR)
    depth = torch.where(torch.isinf(hits.depth), ground, hits.depth)
    point = tuple((position[axis] + depth * d).reshape(-1) for axis, d in enumerate((dx, dy, dz)))
    toy = torch.isfinite(hits.depth).reshape(-1).nonzero()[:, 0]
    part = hits.part.reshape(-1)[toy].long()
    normal = _normals(solids, (point[0][toy], point[1][toy], point[2][toy]), part)
    paint = torch.tensor([solid.paint for solid in solids])[part]
    return Surface((point[0], point[1], point[2]), toy, normal, paint)


def _normals(solids: Sequence[Solid], point: Components, part: Tensor) -> Components:
    """Outward unit normals at points `[M]` on the surface of the solids numbered `part` `[M]`."""
    to_unit = np.linalg.inv(np.array([solid.axes for solid in solids]))
    matrix = torch.from_numpy(to_unit.astype(np.float32)).permute(1, 2, 0)[:, :, part]
    centre = torch.tensor([solid.centre for solid in solids]).T[:, part]
    x, y, z = (point[axis] - centre[axis] for axis in range(3))
    local = [row[0] * x + row[1] * y + row[2] * z for row in matrix]
    shape = torch.tensor([SHAPES.index(solid.shape) for solid in solids])[part]
    taper = torch.tensor([solid.taper for solid in solids])[part]
    gradient = torch.stack(_unit_normals(local[0], local[1], local[2], shape, taper))
    # A normal goes over into the world by the inverse transpose, whatever the stretching.
    normal = [
        matrix[0, k] * gradient[0] + matrix[1, k] * gradient[1] + matrix[2, k] * gradient[2] for k in range(3)
    ]
    length = (normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]).sqrt()
    return normal[0] / length, normal[1] / length, normal[2] / length


def _unit_normals(x: Tensor, y: Tensor, z: Tensor, shape: Tensor, taper: Tensor) -> Components:
    """Directions (of any length) out of the unit solids at points on their surface."""
    zero = torch.zeros_like(x)
    ax, ay, az = x.abs(), y.abs(), z.abs()
    box = shape == SHAPES.index("box")
    on_x = box & (ax >= ay) & (ax >= az)
    on_y = box & ~on_x & (ay >= az)
    slope, middle = (taper - 1) / 2, (taper + 1) / 2
    radius = middle + slope * z
    revolved = (shape == SHAPES.index("cylinder")) | (shape == SHAPES.index("cone"))
    # Of the lids and the side, the point lies on the one that it is outside of, or least inside.
    on_lid = revolved & (az - 1 > (x * x + y * y).sqrt() - radius)
    on_side = revolved & ~on_lid
    flat_z = (box & ~on_x & ~on_y) | on_lid
    normal_x = torch.where(on_y | flat_z, zero, x)
    normal_y = torch.where(on_x | flat_z, zero, y)
    normal_z = torch.where(on_x | on_y, zero, torch.where(on_side, -slope * radius, z))
    return normal_x, normal_y, normal_z
