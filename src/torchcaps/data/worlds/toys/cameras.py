from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DISTANCE = 6.0
"""From the camera to the toy's center; the toy's bounding ball has radius 1."""

EYES_APART = 6.0
"""Degrees of azimuth between the left and the right camera."""

HALF_FIELD = 0.178  # a ball of radius 1 at this distance fills 95 % of the frame


@dataclass(frozen=True)
class Cameras:
    """V cameras of one kind and field of view, each with its axes: right, down, forward.

    A pixel has coordinates (u, v), both from -`half_field` to `half_field`. Its ray starts at the camera and
    runs along forward + u·right + v·down; in a `parallel` camera (a lamp's) it starts at that offset and runs
    along forward. In both cases the ray's parameter is the depth along `forward`.

    Attributes:
        position: `[V, 3]`.
        right: `[V, 3]`, as are `down` and `forward`; the three are orthonormal.
    """

    position: np.ndarray
    right: np.ndarray
    down: np.ndarray
    forward: np.ndarray
    half_field: float
    parallel: bool = False

    def __len__(self) -> int:
        return len(self.position)

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Project points `[K, 3]` onto each camera: u, v and depth, each `[V, K]`."""
        offset = points[None] - self.position[:, None]
        u, v, depth = ((offset * axis[:, None]).sum(-1) for axis in (self.right, self.down, self.forward))
        return (u, v, depth) if self.parallel else (u / depth, v / depth, depth)

    def pixel_centers(self, size: int) -> np.ndarray:
        """The u (or v) of the center of each of `size` columns (or rows), `[size]`."""
        return ((np.arange(size) + 0.5) / size * 2 - 1) * self.half_field


def directions(azimuths: Sequence[float], elevations: Sequence[float]) -> np.ndarray:
    """Unit vectors `[V, 3]` of azimuths and elevations in degrees.

    >>> directions([0, 90], [0, 0]).round(6).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    # The math module rather than numpy, whose sine can differ in the last bit between processors.
    return np.array(
        [
            (
                math.cos(elevation) * math.cos(azimuth),
                math.cos(elevation) * math.sin(azimuth),
                math.sin(elevation),
            )
            for azimuth, elevation in zip(map(math.radians, azimuths), map(math.radians, elevations))
        ]
    )


def look_from(
    azimuths: Sequence[float],
    elevations: Sequence[float],
    target: np.ndarray,
    *,
    distance: float = DISTANCE,
    half_field: float = HALF_FIELD,
    parallel: bool = False,
) -> Cameras:
    """Cameras at the given azimuths and elevations (degrees) around `target` that look at it.

    Straight above, where the horizon does not define "right", it is the limit of lower cameras.

    >>> camera = look_from([0], [30], np.zeros(3))
    >>> _, _, depth = camera.project(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> depth.round(6).tolist()
    [[6.0, 5.5]]
    """
    towards = directions(azimuths, elevations)
    right = directions([azimuth + 90 for azimuth in azimuths], [0] * len(azimuths))
    down = np.cross(-towards, right)
    return Cameras(target + distance * towards, right, down, -towards, half_field, parallel)


def stereo(azimuths: Sequence[float], elevations: Sequence[float], target: np.ndarray) -> Cameras:
    """Pairs of cameras for V views, left before right, both looking at `target`: 2 V cameras."""
    shifts = (-EYES_APART / 2, EYES_APART / 2)
    paired = [azimuth + shift for azimuth in azimuths for shift in shifts]
    return look_from(paired, [elevation for elevation in elevations for _ in shifts], target)
