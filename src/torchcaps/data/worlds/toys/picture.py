from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from torchcaps.data.worlds.toys.cameras import stereo
from torchcaps.data.worlds.toys.lighting import Light, shade
from torchcaps.data.worlds.toys.raycast import cast_rays
from torchcaps.data.worlds.toys.solid import Solid
from torchcaps.data.worlds.toys.surfaces import surface

_SAMPLES = 2  # rays per pixel, along each side


def pictures(
    solids: Sequence[Solid],
    target: np.ndarray,
    azimuth: float,
    elevations: Sequence[float],
    lights: Sequence[Light],
    *,
    size: int,
    shadows: bool,
) -> np.ndarray:
    """Stereo pairs of a toy from one azimuth, several elevations, under several lightings.

    The rays are followed once and shaded once per lighting; the lamps' shadow maps serve all elevations.

    Args:
        solids: the toy, inside a ball of radius 1 around `target`.
        target: `[3]`, what the cameras look at.
        azimuth: degrees.
        elevations: E of them, degrees.
        lights: L of them.
        size: pixels along each side.
        shadows: whether the lamps cast them.

    Returns:
        uint8 `[E, L, 2, size, size]`, left camera first.
    """
    cameras = stereo([azimuth] * len(elevations), elevations, target)
    hits = cast_rays(solids, cameras, size * _SAMPLES)
    seen = surface(solids, cameras, hits)
    bright = shade(solids, seen, azimuth, lights, target, shadows=shadows)
    samples = bright.reshape(len(lights), len(elevations), 2, size * _SAMPLES, size * _SAMPLES)
    first, second = samples[..., 0::2, :], samples[..., 1::2, :]
    rows = first + second
    pixels = (rows[..., 0::2] + rows[..., 1::2]) * (255 / _SAMPLES**2)
    return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8).swapaxes(0, 1)
