from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torchcaps._registry import suggest
from torchcaps.data.worlds.boats.relations import (
    BOAT,
    CORNERS,
    HOUSE,
    PARTS,
    PLACEMENTS,
    RECTANGLE,
    TRIANGLE,
    WHOLES,
    matrices,
)
from torchcaps.data.worlds.boats.similarity import Similarity

RADII = tuple(
    max(abs(place(complex(*corner))) for place, corners in zip(whole, CORNERS) for corner in corners)
    for whole in PLACEMENTS
)
"""Radius of each whole type around the origin of its coordinates."""


@dataclass(frozen=True)
class Scene:
    """The content of an image: P parts and W wholes with their poses.

    Attributes:
        part_type: int64 `[P]`, index into `PARTS`.
        part_pose: float64 `[P, 3, 3]`.
        part_whole: int64 `[P]`, the number of the whole it belongs to, -1 for a stray part.
        whole_type: int64 `[W]`, index into `WHOLES`.
        whole_pose: float64 `[W, 3, 3]`.
        decoy_type: int64 `[D]`, wholes that two parts agree on although each belongs to another whole.
        decoy_pose: float64 `[D, 3, 3]`.
        brightness: float64 `[P]`, of each part, 0..1.
    """

    part_type: Tensor
    part_pose: Tensor
    part_whole: Tensor
    whole_type: Tensor
    whole_pose: Tensor
    decoy_type: Tensor
    decoy_pose: Tensor
    brightness: Tensor


Placed = tuple[int, Similarity]


def scene(kind: str = "single", *, seed: int | str = 0, wholes: int = 4) -> Scene:
    """Compose a scene: exact poses, the same for the same seed.

    - `single`: one house or boat.
    - `crowded`: `wholes` houses and boats, each of a random type, some of them overlapping, and up to two
      stray parts.
    - `ambiguous`: four parts in a row. The outer pairs are two wholes of one type; the inner two parts agree
      just as exactly on a whole of the other type (the decoy), rotated to its side. Only the first
      interpretation uses all parts.

    Args:
        kind: one of these three.
        seed: names the scene.
        wholes: how many in a crowded scene.

    Example:
        >>> from torchcaps.data.worlds.boats.relations import RELATION
        >>> boat = scene("single", seed=1)
        >>> vote = boat.part_pose @ RELATION[boat.whole_type[0], boat.part_type]
        >>> torch.allclose(vote, boat.whole_pose.expand(2, 3, 3))
        True
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of scene {kind!r}: {suggest(kind, KINDS)}")
    if wholes < 1:
        raise ValueError(f"wholes must be at least 1, got {wholes}")
    return KINDS[kind](random.Random(f"boats/{kind}/{seed}"), wholes)


def _single(rng: random.Random, wholes: int) -> Scene:
    whole = rng.randrange(len(WHOLES))
    return _scene(rng, [(whole, _random_pose(rng, RADII[whole], 0.28, 0.48))])


def _crowded(rng: random.Random, wholes: int) -> Scene:
    size = math.sqrt(4 / max(wholes, 4))  # wholes shrink so that they cover a fixed share of the image
    placed: list[Placed] = []
    apart = 0.7
    while len(placed) < wholes:
        whole = rng.randrange(len(WHOLES))
        pose = _random_pose(rng, RADII[whole], 0.18 * size, 0.27 * size)
        gaps = (
            abs(pose.shift - other.shift) / _radii((whole, pose), (kind, other)) for kind, other in placed
        )
        if all(gap > apart for gap in gaps):
            placed.append((whole, pose))
        else:
            apart *= 0.995  # wholes that do not fit may overlap a little more
    strays = [
        (rng.randrange(len(PARTS)), _random_pose(rng, 1.2, 0.18 * size, 0.27 * size))
        for _ in range(rng.randrange(3))
    ]
    return _scene(rng, placed, strays)


def _ambiguous(rng: random.Random, wholes: int) -> Scene:
    true, decoy = rng.sample((HOUSE, BOAT), 2)
    first = Similarity(1, 0)
    between = first @ PLACEMENTS[true][TRIANGLE] @ PLACEMENTS[decoy][TRIANGLE].inverse()
    second = between @ PLACEMENTS[decoy][RECTANGLE] @ PLACEMENTS[true][RECTANGLE].inverse()

    corners = [
        (whole @ place)(complex(*corner))
        for whole in (first, second)
        for place, own in zip(PLACEMENTS[true], CORNERS)
        for corner in own
    ]
    wide, high = [corner.real for corner in corners], [corner.imag for corner in corners]
    middle = complex(min(wide) + max(wide), min(high) + max(high)) / 2
    radius = max(abs(corner - middle) for corner in corners)
    scale = rng.uniform(0.8, 1.0) / radius
    onto_canvas = _random_pose(rng, radius, scale, scale) @ Similarity(1, -middle)
    pair: list[Placed] = [(true, onto_canvas @ first), (true, onto_canvas @ second)]
    rng.shuffle(pair)
    return _scene(rng, pair, decoys=[(decoy, onto_canvas @ between)])


KINDS: dict[str, Callable[[random.Random, int], Scene]] = {
    "single": _single,
    "crowded": _crowded,
    "ambiguous": _ambiguous,
}


def _random_pose(rng: random.Random, radius: float, smallest: float, largest: float) -> Similarity:
    """A random pose that keeps something of the given radius inside the image."""
    scale = rng.uniform(smallest, largest)
    room = max(0.0, 1 - radius * scale)
    return Similarity.of(
        rng.uniform(-room, room), rng.uniform(-room, room), rng.uniform(-math.pi, math.pi), scale
    )


def _radii(*placed: Placed) -> float:
    return sum(RADII[kind] * abs(pose.turn) for kind, pose in placed)


def _scene(
    rng: random.Random,
    wholes: list[Placed],
    strays: list[Placed] | None = None,
    decoys: list[Placed] | None = None,
) -> Scene:
    """Split wholes into parts, in a random order that does not reveal which belong together."""
    parts = [
        (part, pose @ PLACEMENTS[whole][part], number)
        for number, (whole, pose) in enumerate(wholes)
        for part in (RECTANGLE, TRIANGLE)
    ]
    parts += [(part, pose, -1) for part, pose in strays or []]
    rng.shuffle(parts)
    return Scene(
        part_type=torch.tensor([part for part, _, _ in parts]),
        part_pose=matrices([pose for _, pose, _ in parts]),
        part_whole=torch.tensor([number for _, _, number in parts]),
        whole_type=torch.tensor([whole for whole, _ in wholes]),
        whole_pose=matrices([pose for _, pose in wholes]),
        decoy_type=torch.tensor([whole for whole, _ in decoys or []], dtype=torch.int64),
        decoy_pose=matrices([pose for _, pose in decoys or []]),
        brightness=torch.tensor([rng.uniform(0.55, 1.0) for _ in parts], dtype=torch.float64),
    )
