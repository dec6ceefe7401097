"""The parts of a whole, put together in a wrong way."""

from __future__ import annotations

import math

import numpy as np

from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.flat.similarity import apply, scale_of, similarity
from torchcaps.data.worlds.flat.world import World

SCRAMBLED_REACH = 1.25
"""Scrambled wholes extend at most so far from their middle, in units of a whole."""

_TRIES = 16


def scramble(
    world: World, numbers: SceneNumbers, whole_type: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put the parts of a whole side by side at random.

    Each part keeps its size, gets a random angle and is attached to a random earlier one. Of several tries,
    the most compact one is chosen in which no two parts stand as they do in any whole of the world.

    Args:
        world: the world.
        numbers: random numbers for N scenes.
        whole_type: int64 `[N]`.

    Returns:
        Types int64 `[N, S]`, poses float64 `[N, S, 4]` in units of a whole, and a mask bool `[N, S]`.
    """
    table = world.whole
    kind, filled = table.member[whole_type], table.filled[whole_type]  # [N, S]
    slots = kind.shape[1]
    scale = np.broadcast_to(scale_of(table.place[whole_type])[:, None], (len(kind), _TRIES, slots))
    angle = numbers.uniform(-math.pi, math.pi, _TRIES, slots)
    direction = numbers.uniform(-math.pi, math.pi, _TRIES, slots)
    gap = numbers.uniform(*world.gap, _TRIES, slots)
    host = numbers.uniform(0, 1, _TRIES, slots)

    turned = similarity(0, 0, angle, scale)
    points = apply(turned[..., None, :], world.outlines[kind][:, None])  # [N, T, S, M, 2]
    center = np.zeros((len(kind), _TRIES, slots, 2))
    for slot in range(1, slots):
        neighbor = (host[..., slot] * slot).astype(np.int64)[..., None]
        toward = np.stack([np.cos(direction[..., slot]), np.sin(direction[..., slot])], axis=-1)
        outlines = np.take_along_axis(points[..., :slot, :, :], neighbor[..., None, None], axis=2)[:, :, 0]
        # Along this direction, the one ends where the other begins: the two cannot overlap.
        extent = _extent(outlines, toward) + _extent(points[..., slot, :, :], -toward) + gap[..., slot]
        start = np.take_along_axis(center[..., :slot, :], neighbor[..., None], axis=2)[:, :, 0]
        center[..., slot, :] = start + extent[..., None] * toward
    # An empty slot takes the place of the first one, where it changes nothing.
    points = np.where(filled[:, None, :, None, None], points + center[..., None, :], points[:, :, :1])
    middle = (points.min((2, 3)) + points.max((2, 3))) / 2
    x, y = np.moveaxis(points - middle[:, :, None, None], -1, 0)
    radius = np.sqrt((x * x + y * y).max((2, 3)))
    center = center - middle[:, :, None]

    pose = np.concatenate([turned[..., :2], center], axis=-1)
    present = np.where(filled, kind, -1)[:, None]
    error = world.relation_error(np.broadcast_to(present, pose.shape[:-1]), pose)
    overlap = _overlap(world, kind, center, scale, filled)
    wrong = np.where(error < world.tolerance, 100 - error, 0.0) + np.where(
        radius > SCRAMBLED_REACH, 10.0, 0.0
    )
    best = (wrong + radius + 3 * overlap).argmin(1)
    chosen = np.take_along_axis(pose, best[:, None, None, None], axis=1)[:, 0]
    # Rarely needed. All numbers of a pose shrink alike, and relations stay as they are.
    chosen *= np.minimum(1.0, SCRAMBLED_REACH / radius[np.arange(len(best)), best])[:, None, None]
    return kind, chosen, filled


def _extent(points: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """How far points `[..., M, 2]` extend along unit vectors `[..., 2]`."""
    x, y = np.moveaxis(points * direction[..., None, :], -1, 0)
    return (x + y).max(-1)


def _overlap(
    world: World, kind: np.ndarray, center: np.ndarray, scale: np.ndarray, filled: np.ndarray
) -> np.ndarray:
    """How much the discs inside of the parts overlap, float64 `[N, T]`; 0 if they do not."""
    inner = world.part_radius[kind][:, None] * scale / 2
    total = np.zeros(center.shape[:2])
    for i in range(kind.shape[1]):
        for j in range(i):
            x, y = np.moveaxis(center[..., i, :] - center[..., j, :], -1, 0)
            depth = np.maximum(0.0, inner[..., i] + inner[..., j] - np.sqrt(x * x + y * y))
            total += np.where((filled[:, i] & filled[:, j])[:, None], depth, 0.0)
    return total
