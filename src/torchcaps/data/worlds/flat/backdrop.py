"""What is drawn behind the parts: outlines, clutter and a striped background."""

from __future__ import annotations

import math

import numpy as np

from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.flat.options import SceneOptions
from torchcaps.data.worlds.flat.raster import Stamps, stripes
from torchcaps.data.worlds.flat.similarity import similarity
from torchcaps.data.worlds.flat.world import Cover, Form, Shape


def ellipse_distance(u: np.ndarray, v: np.ndarray, across: object, along: object) -> np.ndarray:
    """Signed distance to an ellipse with these radii, exact to first order at its edge."""
    p, q = u / across, v / along
    p_slope, q_slope = p / across, q / along
    # The smallest float32 steps keep the center, where both are 0, from dividing by 0.
    square = p * p + q * q
    return (square - 1) / (2 * np.sqrt(p_slope * p_slope + q_slope * q_slope) + np.float32(1e-6))


def ellipse_points(across: float, along: float) -> np.ndarray:
    """16 points on an ellipse, `[16, 2]`."""
    angle = np.arange(16) * (math.pi / 8)
    return np.stack([across * np.cos(angle), along * np.sin(angle)], axis=-1)


def _box_distance(u: np.ndarray, v: np.ndarray, form: Form) -> np.ndarray:
    return np.maximum(np.abs(u) - 1, np.abs(v) - np.float32(0.16))


def _oval_shade(u: np.ndarray, v: np.ndarray, form: Form, cover: Cover) -> np.ndarray:
    return 1 - np.float32(0.62) * cover(ellipse_distance(u, v, form[0], np.float32(1)) + np.float32(0.055))


STROKE = Shape("stroke", np.array([[1, 0.16], [-1, 0.16], [-1, -0.16], [1, -0.16]]), _box_distance)
DOT = Shape("dot", ellipse_points(0.45, 0.45), lambda u, v, form: np.sqrt(u * u + v * v) - np.float32(0.45))
OVAL = Shape(
    "oval",
    ellipse_points(0.95, 1.0),
    lambda u, v, form: ellipse_distance(u, v, form[0], np.float32(1)),
    _oval_shade,
    form=((0.84, 0.95),),
)
BACKDROP = (STROKE, DOT, OVAL)


def backdrop_stamps(numbers: SceneNumbers, options: SceneOptions, wholes: np.ndarray) -> Stamps:
    """Clutter and, over it, the outlines of wholes.

    Args:
        numbers: random numbers for N scenes.
        options: number of strokes and dots, and whether there are outlines.
        wholes: poses of what is outlined, float64 `[N, W, 4]`.

    Returns:
        Layers of shapes from `BACKDROP`.
    """
    clutter, scenes = options.clutter, len(numbers)
    ovals = wholes.shape[1] if options.outline else 0
    place = numbers.uniform(-0.95, 0.95, clutter, 2)
    angle, scale = numbers.uniform(-math.pi, math.pi, clutter), numbers.uniform(0.06, 0.14, clutter)
    pose = similarity(place[..., 0], place[..., 1], angle, scale)
    kind = np.concatenate([numbers.integers(2, clutter), np.full((scenes, ovals), 2)], axis=1)
    aspects = [np.ones((scenes, clutter, 1)), numbers.uniform(*OVAL.form[0], ovals, 1)]
    paints = [numbers.uniform(0.3, 0.7, clutter), numbers.uniform(0.5, 0.65, ovals)]
    return Stamps(
        type=kind,
        present=np.ones(kind.shape, bool),
        pose=np.concatenate([pose, wholes[:, :ovals]], axis=1),
        form=np.concatenate(aspects, axis=1),
        brightness=np.concatenate(paints, axis=1),
        texture=np.zeros((*kind.shape, 3)),
    )


def background(numbers: SceneNumbers, size: int, texture: float) -> np.ndarray:
    """Black, or soft stripes in gray with a gradient, float32 `[N, size, size]`."""
    if not texture:
        return np.zeros((len(numbers), size, size), np.float32)
    middle = (2 * np.arange(size) + 1) / size - 1
    direction, waves = numbers.uniform(-math.pi, math.pi, 2), numbers.uniform(0.6, 1.8)
    phase, level = numbers.uniform(0, 1), numbers.uniform(0.05, 0.25)

    def plane(angle: np.ndarray, factor: object, constant: object) -> np.ndarray:
        across = (factor * np.cos(angle))[:, None] * middle + np.asarray(constant)[..., None]
        along = (factor * np.sin(angle))[:, None] * -middle
        return across.astype(np.float32)[:, None, :] + along.astype(np.float32)[:, :, None]

    waves_part = stripes(plane(direction[:, 0], waves, phase)) * np.float32(0.22)
    return np.float32(texture) * (waves_part + np.abs(plane(direction[:, 1], 0.12, level)))
