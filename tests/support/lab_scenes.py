"""Scenes of parts and wholes, as the page sends them."""

from __future__ import annotations

import math

import numpy as np

from torchcaps.data.worlds.flat.similarity import compose, similarity
from torchcaps.lab.schemas import PlacedPart, ScenePart

Place = tuple[float, float, float, float]
"""x, y, angle in degrees, scale."""


def scene_parts(parts: list[PlacedPart], place: Place) -> list[ScenePart]:
    """The parts of a whole at a place on the board."""
    x, y, angle, scale = place
    placed = []
    for part in parts:
        a, b, u, v = compose(similarity(x, y, math.radians(angle), scale), np.array(part.pose)).tolist()
        placed.append(
            ScenePart(kind=part.kind, x=u, y=v, angle=math.degrees(math.atan2(b, a)), scale=math.hypot(a, b))
        )
    return placed


def random_place(seed: int) -> Place:
    """Somewhere in the middle, at any angle."""
    random = np.random.default_rng(seed)
    x, y = random.uniform(-0.3, 0.3, 2).tolist()
    return x, y, float(random.uniform(-180, 180)), float(random.uniform(0.42, 0.6))
