"""The content of a batch of scenes, before it is drawn: types, poses and who belongs to whom."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.flat.options import Ranges
from torchcaps.data.worlds.flat.similarity import compose, similarity
from torchcaps.data.worlds.flat.world import World

_TRIES = 10


@dataclass(frozen=True)
class Objects:
    """K things of one level in each of N scenes.

    Attributes:
        type: int64 `[N, K]`.
        pose: float64 `[N, K, 4]`.
        mask: bool `[N, K]`, False in padding.
        parent: int64 `[N, K]`, index of the thing of the next level that it belongs to, or -1.
    """

    type: np.ndarray
    pose: np.ndarray
    mask: np.ndarray
    parent: np.ndarray

    @classmethod
    def of(
        cls,
        type: np.ndarray,
        pose: np.ndarray,
        mask: np.ndarray | None = None,
        parent: np.ndarray | None = None,
    ) -> Objects:
        """Without a mask all are present, without a parent they belong to nothing."""
        return cls(
            type,
            pose,
            np.ones(type.shape, bool) if mask is None else mask,
            np.full(type.shape, -1) if parent is None else parent,
        )

    @classmethod
    def none(cls, count: int) -> Objects:
        """No things in `count` scenes."""
        return cls.of(np.zeros((count, 0), np.int64), np.zeros((count, 0, 4)))


@dataclass(frozen=True)
class Layout:
    """The content of N scenes.

    Attributes:
        parts: in drawing order, which is random and does not reveal which of them belong together.
        form: float64 `[N, P, F]`, the form of each part.
        wholes: what the parts belong to.
        groups: what the wholes belong to.
        decoys: wholes that two parts agree on although they belong to others.
    """

    parts: Objects
    form: np.ndarray
    wholes: Objects
    groups: Objects
    decoys: Objects


def assemble(
    world: World,
    numbers: SceneNumbers,
    wholes: Objects,
    *,
    strays: Objects | None = None,
    groups: Objects | None = None,
    decoys: Objects | None = None,
    alike: bool = False,
) -> Layout:
    """Split wholes into their parts and shuffle these together with stray ones.

    Args:
        world: says which parts, and how much they vary.
        numbers: random numbers for N scenes.
        wholes: W of them in each scene.
        strays: parts that belong to no whole.
        groups: what the wholes belong to.
        decoys: what the parts could be taken for.
        alike: whether the parts of all wholes in a scene vary in the same way.
    """
    scenes = len(numbers)
    strays = Objects.none(scenes) if strays is None else strays
    table = world.whole
    kinds, slots = len(world.parts), table.member.shape[1]
    number = wholes.type.shape[1]

    member = table.member[wholes.type]  # [N, W, S]
    shift, turn, grow = world.vary
    varied = (1 if alike else number, slots)
    vary = similarity(
        numbers.uniform(-shift, shift, *varied),
        numbers.uniform(-shift, shift, *varied),
        numbers.uniform(-math.radians(turn), math.radians(turn), *varied),
        numbers.uniform(1 - grow, 1 + grow, *varied),
    )
    place = table.place[wholes.type]
    # A part turns and grows around its own center.
    place = np.concatenate([compose(vary, place)[..., :2], place[..., 2:] + vary[..., 2:]], axis=-1)
    pose = compose(wholes.pose[:, :, None], place)
    mask = table.filled[wholes.type] & wholes.mask[..., None]
    parent = np.where(mask, np.arange(number)[:, None], -1)

    ranges = world.form_ranges
    width = ranges.shape[1]
    # One form for each whole and type of part: both eyes of a face are alike.
    shares = numbers.uniform(0, 1, varied[0], kinds, width)
    shares = np.take_along_axis(shares, member[..., None], axis=2).reshape(scenes, number * slots, width)
    shares = np.concatenate([shares, numbers.uniform(0, 1, strays.type.shape[1], width)], axis=1)

    kind = np.concatenate([member.reshape(scenes, number * slots), strays.type], axis=1)
    pose = np.concatenate([pose.reshape(scenes, number * slots, 4), strays.pose], axis=1)
    mask = np.concatenate([mask.reshape(scenes, number * slots), strays.mask], axis=1)
    parent = np.concatenate([parent.reshape(scenes, number * slots), strays.parent], axis=1)
    form = ranges[kind, :, 0] + shares * (ranges[kind, :, 1] - ranges[kind, :, 0])

    order = np.argsort(numbers.uniform(0, 1, kind.shape[1]) + ~mask, axis=1, kind="stable")
    kind, mask, parent = (np.take_along_axis(each, order, axis=1) for each in (kind, mask, parent))
    pose, form = (np.take_along_axis(each, order[..., None], axis=1) for each in (pose, form))
    return Layout(
        parts=Objects(np.where(mask, kind, 0), np.where(mask[..., None], pose, 0.0), mask, parent),
        form=form,
        wholes=wholes,
        groups=Objects.none(scenes) if groups is None else groups,
        decoys=Objects.none(scenes) if decoys is None else decoys,
    )


def poses_in(ranges: Ranges, numbers: SceneNumbers) -> np.ndarray:
    """One pose per scene with angle, scale and offset in these ranges, float64 `[N, 4]`."""
    near, far = ranges.offset
    direction = numbers.uniform(-math.pi, math.pi)
    # Uniform over the area of the ring.
    distance = np.sqrt(numbers.uniform(near * near, far * far))
    return similarity(
        distance * np.cos(direction),
        distance * np.sin(direction),
        np.radians(numbers.uniform(*ranges.angle)),
        numbers.uniform(*ranges.scale),
    )


def spread(numbers: SceneNumbers, radius: np.ndarray, closest: float) -> np.ndarray:
    """Places for K discs per scene that lie inside the image and apart from each other, where there is room.

    Each disc takes the first of a few random places that is far enough from all earlier discs, or the one
    that is farthest.

    Args:
        numbers: random numbers.
        radius: of the discs, float64 `[N, K]`.
        closest: distance of two discs, in units of the sum of their radii, that is far enough.

    Returns:
        Centers, float64 `[N, K, 2]`.
    """
    centers = np.zeros((*radius.shape, 2))
    rows = np.arange(len(radius))
    for number in range(radius.shape[1]):
        room = np.maximum(0.0, 1 - radius[:, number])[:, None, None]
        tries = numbers.uniform(-1, 1, _TRIES, 2) * room
        enough = np.ones((len(radius), _TRIES))
        for other in range(number):
            x, y = np.moveaxis(tries - centers[:, other, None], -1, 0)
            limit = closest * (radius[:, number] + radius[:, other])[:, None]
            enough = np.minimum(enough, np.sqrt(x * x + y * y) / limit)
        centers[:, number] = tries[rows, enough.argmax(1)]
    return centers
