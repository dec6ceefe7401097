"""The kinds of scenes: each composes a batch of them from random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from torchcaps.data.worlds.flat.ambiguity import Rivals
from torchcaps.data.worlds.flat.layout import Layout, Objects, assemble, poses_in, spread
from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.flat.options import Range, Ranges, SceneOptions
from torchcaps.data.worlds.flat.scramble import SCRAMBLED_REACH, scramble
from torchcaps.data.worlds.flat.similarity import compose, scale_of, similarity
from torchcaps.data.worlds.flat.world import World

MOST_STRAYS = 2


@dataclass(frozen=True)
class Kind:
    """A kind of scene.

    Attributes:
        compose: makes the layout.
        scale: default range of scales.
        offset: default range of offsets.
        reach: how far a scene of scale 1 extends from its middle, by the options.
    """

    compose: Callable[[World, SceneNumbers, SceneOptions, Ranges], Layout]
    scale: Range
    offset: Range = (0.0, 0.0)
    reach: Callable[[SceneOptions], float] = lambda options: 1.0


def compose_scenes(world: World, kind: str, numbers: SceneNumbers, options: SceneOptions) -> Layout:
    """The content of one scene per generator in `numbers`."""
    chosen = KINDS[kind]
    ranges = options.ranges(chosen.scale, chosen.offset, chosen.reach(options))
    return chosen.compose(world, numbers, options, ranges)


def _parts(world: World, numbers: SceneNumbers, options: SceneOptions, ranges: Ranges) -> Layout:
    return assemble(
        world, numbers, Objects.none(len(numbers)), strays=_loose(world, numbers, ranges, options.parts)
    )


def _single(world: World, numbers: SceneNumbers, options: SceneOptions, ranges: Ranges) -> Layout:
    kind = numbers.integers(len(world.wholes), 1)
    return assemble(world, numbers, Objects.of(kind, poses_in(ranges, numbers)[:, None]))


def _crowded(world: World, numbers: SceneNumbers, options: SceneOptions, ranges: Ranges) -> Layout:
    kind = numbers.integers(len(world.wholes), options.wholes)
    scale = numbers.uniform(*ranges.scale, options.wholes)
    scale = scale * math.sqrt(4 / max(options.wholes, 4))  # wholes cover a fixed share of the image at most
    angle = np.radians(numbers.uniform(*ranges.angle, options.wholes))
    radius = np.ones(kind.shape) if options.outline else world.whole.radius[kind]
    x, y = np.moveaxis(spread(numbers, radius * scale, 0.75), -1, 0)
    wholes = Objects.of(kind, similarity(x, y, angle, scale))
    strays = _loose(world, numbers, ranges, MOST_STRAYS)
    present = np.arange(MOST_STRAYS) < numbers.integers(MOST_STRAYS + 1, 1)
    return assemble(
        world, numbers, wholes, strays=Objects.of(strays.type, strays.pose, present, strays.parent)
    )


def _twins(world: World, numbers: SceneNumbers, options: SceneOptions, ranges: Ranges) -> Layout:
    kind = numbers.integers(len(world.wholes), 1)
    middle = poses_in(ranges, numbers)
    half = numbers.uniform(*options.separation) / 2 * scale_of(middle)
    direction = numbers.uniform(-math.pi, math.pi)
    apart = np.stack([half * np.cos(direction), half * np.sin(direction)], axis=-1)
    pose = np.stack([middle, middle], axis=1)
    pose[:, 0, 2:] -= apart
    pose[:, 1, 2:] += apart
    return assemble(world, numbers, Objects.of(np.repeat(kind, 2, axis=1), pose), alike=True)


def _scrambled(world: World, numbers: SceneNumbers, options: SceneOptions, ranges: Ranges) -> Layout:
    kind = numbers.integers(len(world.wholes), 1)
    pose = poses_in(ranges, numbers)
    intact = numbers.uniform(0, 1, 1) < options.intact
    part_type, part_pose, mask = scramble(world, numbers, kind[:, 0])
    strays = Objects.of(part_type, compose(pose[:, None], part_pose), mask & ~intact)
    return assemble(world, numbers, Objects.of(kind, pose[:, None], intact), strays=strays)


def _groups(world: World, numbers: SceneNumbers, options: SceneOptions, ranges: Ranges) -> Layout:
    kind = numbers.integers(len(world.groups), 1)
    pose = poses_in(ranges, numbers)[:, None]
    table = world.group
    member, filled = table.member[kind[:, 0]], table.filled[kind[:, 0]]
    wholes = Objects.of(member, compose(pose, table.place[kind[:, 0]]), filled, np.where(filled, 0, -1))
    return assemble(world, numbers, wholes, groups=Objects.of(kind, pose))


def _ambiguous(world: World, numbers: SceneNumbers, options: SceneOptions, ranges: Ranges) -> Layout:
    rivals = Rivals.of(world)
    choice = numbers.integers(len(rivals.true))
    pose = poses_in(ranges, numbers)[:, None]
    true = np.repeat(rivals.true[choice, None], 2, axis=1)
    return assemble(
        world,
        numbers,
        Objects.of(true, compose(pose, rivals.pose[choice])),
        decoys=Objects.of(rivals.decoy[choice, None], compose(pose, rivals.decoy_pose[choice, None])),
    )


def _loose(world: World, numbers: SceneNumbers, ranges: Ranges, count: int) -> Objects:
    """Parts that belong to nothing, as large as parts in wholes of the same range of scales."""
    kind = numbers.integers(len(world.parts), count)
    sizes = _part_sizes(world)
    most = np.array([len(each) for each in sizes])
    padded = np.stack([np.resize(each, most.max()) for each in sizes])
    chosen = (numbers.uniform(0, 1, count) * most[kind]).astype(np.int64)
    scale = padded[kind, chosen] * numbers.uniform(*ranges.scale, count)
    angle = np.radians(numbers.uniform(*ranges.angle, count))
    x, y = np.moveaxis(spread(numbers, world.part_radius[kind] * scale, 1.0), -1, 0)
    return Objects.of(kind, similarity(x, y, angle, scale))


def _part_sizes(world: World) -> list[np.ndarray]:
    """The scales at which each type of part occurs in wholes."""
    table = world.whole
    scale = scale_of(table.place)
    return [scale[table.filled & (table.member == kind)] for kind in range(len(world.parts))]


KINDS = {
    "parts": Kind(_parts, (0.45, 0.9)),
    "single": Kind(_single, (0.55, 0.9), (0.0, 0.1)),
    "scrambled": Kind(_scrambled, (0.5, 0.72), (0.0, 0.1), lambda options: SCRAMBLED_REACH),
    "crowded": Kind(_crowded, (0.34, 0.46)),
    "twins": Kind(_twins, (0.4, 0.54), (0.0, 0.02), lambda options: 1 + options.separation[1] / 2),
    "ambiguous": Kind(_ambiguous, (0.8, 0.98)),
    "groups": Kind(_groups, (0.8, 0.98)),
}
