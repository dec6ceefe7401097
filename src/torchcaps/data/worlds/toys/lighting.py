from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchcaps.data.worlds.toys.cameras import Cameras, look_from
from torchcaps.data.worlds.toys.raycast import Components, cast_rays
from torchcaps.data.worlds.toys.solid import Solid
from torchcaps.data.worlds.toys.surfaces import Surface


@dataclass(frozen=True)
class Light:
    """One lighting: a distant lamp, and weak light from all sides.

    Attributes:
        azimuth: of the lamp, in degrees from the camera's: lamps stay with the camera, the toy turns.
        elevation: of the lamp, in degrees.
        lamp: brightness of a white surface that faces the lamp, without the ambient light.
        ambient: brightness that comes from all sides, a little more from above.
    """

    azimuth: float
    elevation: float
    lamp: float
    ambient: float


LIGHTS = (
    Light(azimuth=-55, elevation=50, lamp=0.90, ambient=0.30),
    Light(azimuth=60, elevation=42, lamp=0.90, ambient=0.30),
    Light(azimuth=15, elevation=78, lamp=0.70, ambient=0.33),
    Light(azimuth=-135, elevation=48, lamp=0.95, ambient=0.36),
    Light(azimuth=145, elevation=38, lamp=0.90, ambient=0.42),
    Light(azimuth=-10, elevation=33, lamp=0.75, ambient=0.45),
)

GROUND_PAINT = 0.8
"""Lighter than any toy; otherwise a flat roof could not be seen against it."""

_MAP_SIZE = 128
_MAP_HALF = 1.06  # the bounding ball and a border without shadows
_GROUND_SHADE = 0.7  # less than 1: the bright ground around also lights its shadows
_LIFT = 0.03  # shadows are looked up a little above the surface, so that it does not shade itself


def lamps(view_azimuth: float, lights: Sequence[Light], target: np.ndarray) -> Cameras:
    """The lamps of L lightings as parallel cameras that look at the toy."""
    return look_from(
        [view_azimuth + light.azimuth for light in lights],
        [light.elevation for light in lights],
        target,
        distance=3.0,
        half_field=_MAP_HALF,
        parallel=True,
    )


def shade(
    solids: Sequence[Solid],
    visible: Surface,
    view_azimuth: float,
    lights: Sequence[Light],
    target: np.ndarray,
    *,
    shadows: bool,
) -> np.ndarray:
    """Brightness of every visible point, under each lighting.

    Lambert's law for the lamp, and a hemisphere of ambient light; with `shadows` the lamp reaches only what
    is visible from it.

    Args:
        solids: the toy.
        visible: N points, M of them on the toy.
        view_azimuth: of the camera, to which the lamps' azimuths are relative, in degrees.
        lights: L lightings.
        target: the toy's center `[3]`.
        shadows: whether lamps cast them.

    Returns:
        float32 `[L, N]`, 1 being white.
    """
    rows = lamps(view_azimuth, lights, target)
    maps = cast_rays(solids, rows, _MAP_SIZE).depth if shadows else None
    nx, ny, nz = visible.normal
    lifted = visible.point
    if shadows:
        x, y, z = (component.copy() for component in visible.point)
        z += _LIFT  # along the ground's normal; the toy's points move along their own
        x[visible.toy] += _LIFT * nx
        y[visible.toy] += _LIFT * ny
        z[visible.toy] += _LIFT * (nz - 1)
        lifted = x, y, z
    shaded = []
    for number, light in enumerate(lights):
        facing = (-rows.forward[number]).tolist()
        lambert = np.maximum(nx * facing[0] + ny * facing[1] + nz * facing[2], 0)
        from_lamp = light.lamp * lambert
        on_ground = light.lamp * facing[2]
        if maps is None:
            brightness = np.full_like(visible.point[0], GROUND_PAINT * (on_ground + light.ambient))
        else:
            hidden = _shadow(maps[number], rows, number, lifted)
            brightness = GROUND_PAINT * (on_ground * (1 - _GROUND_SHADE * hidden) + light.ambient)
            from_lamp = from_lamp * (1 - hidden[visible.toy])
        brightness[visible.toy] = visible.paint * (from_lamp + light.ambient * (0.75 + 0.25 * nz))
        shaded.append(brightness)
    return np.stack(shaded)


def _shadow(depth_map: np.ndarray, rows: Cameras, number: int, point: Components) -> np.ndarray:
    """How much of the lamp is hidden from each point `[N]`, 0..1, softened over a texel of its depth map."""
    x, y, z = point

    def coordinate(axis: np.ndarray) -> np.ndarray:
        a, b, c = axis[number].tolist()
        return x * a + y * b + (z * c - float(np.dot(axis[number], rows.position[number])))

    def texel(axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scale = _MAP_SIZE / 2 / _MAP_HALF
        place = np.clip(coordinate(axis) * scale + (_MAP_SIZE / 2 - 0.5), 0, _MAP_SIZE - 1.001)
        index = np.floor(place)
        return index.astype(np.int32), place - index

    column, right = texel(rows.right)
    row, below = texel(rows.down)
    depth = coordinate(rows.forward)
    flat = depth_map.reshape(-1)
    corner = row * _MAP_SIZE + column

    def hidden(offset: int) -> np.ndarray:
        return (flat[corner + offset] < depth).astype(np.float32)

    above = hidden(0) * (1 - right) + hidden(1) * right
    under = hidden(_MAP_SIZE) * (1 - right) + hidden(_MAP_SIZE + 1) * right
    return above * (1 - below) + under * below
