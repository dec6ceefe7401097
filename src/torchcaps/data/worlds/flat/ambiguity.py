"""Scenes of four parts with two readings: pairs of wholes, and another whole between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from torchcaps.data.worlds.flat.similarity import apply, compose, invert, similarity
from torchcaps.data.worlds.flat.world import World


@dataclass(frozen=True)
class Rivals:
    """Ambiguous scenes, one for each ordered pair of two-part wholes that are made of the same parts.

    The first whole gives one part and the second whole the other part of a decoy: a whole of the rival type
    on which these two parts agree exactly. Only the reading as two true wholes uses all four parts.

    Attributes:
        true: int64 `[R]`, type of both true wholes.
        decoy: int64 `[R]`, type of the decoy.
        pose: float64 `[R, 2, 4]`, of the true wholes, centered and with a radius of 1.
        decoy_pose: float64 `[R, 4]`.
    """

    true: np.ndarray
    decoy: np.ndarray
    pose: np.ndarray
    decoy_pose: np.ndarray

    @staticmethod
    @lru_cache(maxsize=8)
    def of(world: World) -> Rivals:
        """The rivals of a world."""
        table = world.whole
        parts = [tuple(table.member[whole, table.filled[whole]]) for whole in range(len(table.names))]
        rows = [
            (one, other)
            for one, other in permutations(range(len(parts)), 2)
            if parts[one] == parts[other] and len(parts[one]) == 2
        ]
        if not rows:
            raise ValueError(
                f"the world {world.name!r} has no two wholes that are made of the same two parts"
            )
        poses, decoys = [], []
        for true, decoy in rows:
            first = similarity(0, 0, 0, 1)
            between = compose(table.place[true, 1], invert(table.place[decoy, 1]))
            second = compose(compose(between, table.place[decoy, 0]), invert(table.place[true, 0]))
            points = np.concatenate([apply(each, table.points[true]) for each in (first, second)])
            middle = (points.min(0) + points.max(0)) / 2
            unit = np.hypot(*(points - middle).T).max()
            x, y = -middle / unit
            fit = similarity(x, y, 0, 1 / unit)
            poses.append(compose(fit, np.stack([first, second])))
            decoys.append(compose(fit, between))
        true, decoy = np.array(rows).T
        return Rivals(true, decoy, np.stack(poses), np.stack(decoys))
