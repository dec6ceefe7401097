"""What a flat world is made of: shapes, wholes made of them, and groups made of wholes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np

from torchcaps.data.worlds.flat.similarity import apply, compose, invert, similarity

Form = Sequence[np.ndarray]
"""The numbers that vary from one instance of a shape to another, each `[n, 1, 1]`."""
Cover = Callable[[np.ndarray], np.ndarray]
"""Turns signed distances in a shape's own units into the share 0..1 of each pixel that lies inside."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A shape that is drawn in one piece, in its own coordinates, with its center of mass at the origin.

    Attributes:
        name: of the part, such as `"rectangle"`.
        outline: points `[M, 2]` on its convex hull, of the largest form.
        distance: gets coordinates u, v `[n, k, k]` and the form; returns the signed distance, negative
            inside.
        shade: gets u, v, the form and a `Cover`; returns the factor of brightness. It marks which way up the
            shape is, so that its angle can be read over the full circle.
        form: lowest and highest value of each number of the form.
    """

    name: str
    outline: np.ndarray
    distance: Callable[[np.ndarray, np.ndarray, Form], np.ndarray]
    shade: Callable[[np.ndarray, np.ndarray, Form, Cover], np.ndarray] | None = None
    form: tuple[tuple[float, float], ...] = ()

    @property
    def radius(self) -> float:
        """Radius around the origin."""
        return float(np.hypot(*self.outline.T).max())


@dataclass(frozen=True)
class Slot:
    """Where a part belongs in a whole, or a whole in a group; the angle is in degrees."""

    name: str
    x: float
    y: float
    angle: float = 0.0
    scale: float = 1.0

    @property
    def pose(self) -> np.ndarray:
        """The same as (a, b, x, y)."""
        return similarity(self.x, self.y, math.radians(self.angle), self.scale)


@dataclass(frozen=True)
class Whole:
    """Named parts in a fixed relation to each other; or a group: wholes in a fixed relation."""

    name: str
    slots: tuple[Slot, ...]


class Arrangement:
    """The slots of all wholes (or of all groups) as padded arrays, T types with at most S slots each.

    The coordinates of each type are moved and scaled, so that its middle is the origin and its radius at most
    `radius`. Types made of the same members get one common factor: none of them can be told by the size of a
    member.

    Attributes:
        names: of the types.
        member: int64 `[T, S]`, the type of the member in each slot, 0 in padding.
        filled: bool `[T, S]`.
        place: float64 `[T, S, 4]`, pose_member = compose(pose_type, place).
        radius: float64 `[T]`.
        points: the outline `[M, 2]` of each type.
    """

    def __init__(
        self,
        types: Sequence[Whole],
        members: Sequence[str],
        outlines: Sequence[np.ndarray],
        radius: float = 1.0,
    ) -> None:
        self.names = tuple(each.name for each in types)
        width = max((len(each.slots) for each in types), default=0)
        self.member = np.zeros((len(types), width), np.int64)
        self.filled = np.zeros((len(types), width), bool)
        self.place = np.tile(similarity(0, 0, 0, 1), (len(types), width, 1))
        for row, each in enumerate(types):
            for column, slot in enumerate(each.slots):
                self.member[row, column] = list(members).index(slot.name)
                self.filled[row, column] = True
                self.place[row, column] = slot.pose
        centered = [self._center(row, outlines) for row in range(len(types))]
        self.radius = np.array([np.hypot(*points.T).max() for points in centered])
        families = [tuple(sorted(slot.name for slot in each.slots)) for each in types]
        self.points = []
        for row, family in enumerate(families):
            unit = (
                max(size for size, other in zip(self.radius.tolist(), families) if other == family) / radius
            )
            self.place[row] = compose(similarity(0, 0, 0, 1 / unit), self.place[row])
            self.points.append(centered[row] / unit)
        self.radius = np.array([np.hypot(*points.T).max() for points in self.points])

    def _center(self, row: int, outlines: Sequence[np.ndarray]) -> np.ndarray:
        slots = np.flatnonzero(self.filled[row])
        points = np.concatenate(
            [apply(self.place[row, slot], outlines[self.member[row, slot]]) for slot in slots]
        )
        middle = (points.min(0) + points.max(0)) / 2
        self.place[row, slots, 2:] -= middle
        return points - middle


@dataclass(frozen=True, eq=False)
class World:
    """A flat world.

    Attributes:
        name: of the data set.
        parts: the shapes that wholes are made of.
        wholes: at least one.
        groups: of wholes; may be empty.
        vary: how much each part of a whole may differ from its slot: in place (in units of the whole), in
            angle (degrees) and in scale (relative).
        gap: lowest and highest distance between neighboring parts of a scrambled whole, in units of a whole.
        radius: of the largest wholes, in units of a whole; below 1 there is room for an outline.
        tolerance: a scrambled whole has no two parts whose votes for a whole differ by less than this, see
            `relation_error`.
    """

    name: str
    parts: tuple[Shape, ...]
    wholes: tuple[Whole, ...]
    groups: tuple[Whole, ...] = ()
    vary: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gap: tuple[float, float] = (0.0, 0.0)
    radius: float = 1.0
    tolerance: float = 0.25

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """Names of the types of parts."""
        return tuple(each.name for each in self.parts)

    @cached_property
    def whole(self) -> Arrangement:
        """Parts in wholes."""
        return Arrangement(self.wholes, self.part_names, [each.outline for each in self.parts], self.radius)

    @cached_property
    def group(self) -> Arrangement:
        """Wholes in groups."""
        return Arrangement(self.groups, self.whole.names, self.whole.points)

    @cached_property
    def part_radius(self) -> np.ndarray:
        """Radius of each type of part, float64 `[types]`."""
        return np.array([each.radius for each in self.parts])

    @cached_property
    def outlines(self) -> np.ndarray:
        """Outlines of all types of parts, float64 `[types, M, 2]`; shorter ones repeat their last point."""
        most = max(len(each.outline) for each in self.parts)
        rows = [np.pad(each.outline, ((0, most - len(each.outline)), (0, 0)), "edge") for each in self.parts]
        return np.stack(rows)

    @cached_property
    def form_ranges(self) -> np.ndarray:
        """Lowest and highest value of each number of the form, float64 `[types, F, 2]`."""
        most = max(len(each.form) for each in self.parts)
        ranges = np.zeros((len(self.parts), most, 2))
        for row, each in enumerate(self.parts):
            if each.form:
                ranges[row, : len(each.form)] = each.form
        return ranges

    def relation_error(self, part_type: np.ndarray, part_pose: np.ndarray) -> np.ndarray:
        """How far the nearest two parts are from standing as they would in some whole.

        Two parts in a whole vote for the same pose of it. The error of a pair is the distance between its two
        votes, in turn (a, b) or in place (x, y), whichever is larger, divided by the scale of the vote.

        Args:
            part_type: int64 `[..., K]`, -1 where there is no part.
            part_pose: float64 `[..., K, 4]`.

        Returns:
            The smallest error over all pairs of parts and slots, float64 `[...]`; infinite without a pair.
        """
        smallest = np.full(part_type.shape[:-1], np.inf)
        for i, j in combinations(range(part_type.shape[-1]), 2):
            for (one, other), (first, second) in self._relations.items():
                fits = (part_type[..., i] == one) & (part_type[..., j] == other)
                between = compose(invert(part_pose[fits, i]), part_pose[fits, j])[:, None]
                # The vote of part j in the coordinates of the vote of part i: the identity, if the two agree.
                a, b, x, y = np.moveaxis(compose(compose(first, between), second), -1, 0)
                error = np.maximum((a - 1) * (a - 1) + b * b, x * x + y * y).min(-1)
                smallest[fits] = np.minimum(smallest[fits], np.sqrt(error))
        return smallest

    @cached_property
    def _relations(self) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
        """Pairs of slots by the types of their parts: places of the first, inverse places of the second."""
        pairs: dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray]]] = {}
        for member, filled, place in zip(self.whole.member, self.whole.filled, self.whole.place):
            for k, m in permutations(np.flatnonzero(filled).tolist(), 2):
                pairs.setdefault((member[k], member[m]), []).append((place[k], invert(place[m])))
        stacked = {types: np.array(rows).swapaxes(0, 1) for types, rows in pairs.items()}
        return {types: (first, second) for types, (first, second) in stacked.items()}
