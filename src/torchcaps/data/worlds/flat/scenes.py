from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.worlds.flat.backdrop import BACKDROP, backdrop_stamps, background
from torchcaps.data.worlds.flat.kinds import KINDS, compose_scenes
from torchcaps.data.worlds.flat.layout import Layout
from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.flat.options import Range, SceneOptions
from torchcaps.data.worlds.flat.raster import Stamps, masks, paint
from torchcaps.data.worlds.flat.similarity import pose_numbers
from torchcaps.data.worlds.flat.world import World

COUNT = {"train": 10_000, "test": 2_000}
"""Number of scenes in each split by default."""

NOTHING = "nothing"
"""The class of a scrambled whole."""

_CHUNK = 128  # scenes that are drawn together: few enough for the processor's cache
_DIMMEST, _BRIGHTEST = 0.6, 1.0


@dataclass(frozen=True, eq=False)
class Scenes:
    """N drawn scenes and the exact truth about them.

    A pose is a similarity (a, b, x, y) with a = s·cos θ and b = s·sin θ, which maps the coordinates of a
    part, whole or group to those of the image: -1 to 1, with y up. A row whose mask is False is padding; but
    in scrambled scenes, the type and pose of the whole that is not there say what was scrambled.

    Attributes:
        world: where they come from.
        images: uint8 `[N, 1, size, size]`.
        labels: int64 `[N]`, or `[N, K]` for kinds with several objects.
        classes: the name of each label.
        part_mask: bool `[N, P]`.
        part_type: int64 `[N, P]`, index into `world.part_names`.
        part_pose: float64 `[N, P, 4]`.
        part_whole: int64 `[N, P]`, index of the whole that it belongs to, -1 for none.
        part_form: float64 `[N, P, F]`, the numbers that vary between shapes of one type.
        whole_mask: bool `[N, W]`.
        whole_type: int64 `[N, W]`, index into `world.whole.names`.
        whole_pose: float64 `[N, W, 4]`.
        whole_group: int64 `[N, W]`, index of the group that it belongs to, -1 for none.
        group_mask: bool `[N, G]`.
        group_type: int64 `[N, G]`, index into `world.group.names`.
        group_pose: float64 `[N, G, 4]`.
        decoy_mask: bool `[N, D]`: wholes that two parts agree on although they belong to others.
        decoy_type: int64 `[N, D]`.
        decoy_pose: float64 `[N, D, 4]`.
    """

    world: World
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    part_mask: Tensor
    part_type: Tensor
    part_pose: Tensor
    part_whole: Tensor
    part_form: Tensor
    whole_mask: Tensor
    whole_type: Tensor
    whole_pose: Tensor
    whole_group: Tensor
    group_mask: Tensor
    group_type: Tensor
    group_pose: Tensor
    decoy_mask: Tensor
    decoy_type: Tensor
    decoy_pose: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: slice) -> Scenes:
        """Some of the scenes, not copied."""
        arrays = {name: value[rows] for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **arrays)  # type: ignore[arg-type]

    def truth(self) -> dict[str, Tensor]:
        """All arrays about parts, wholes, groups and decoys by name, each with N rows."""
        names = (each.name for each in fields(self))
        return {name: getattr(self, name) for name in names if name.partition("_")[0] in _LEVELS}

    def part_masks(self, *, visible: bool = False) -> Tensor:
        """The share of each pixel that each part covers, float32 `[N, P, size, size]`.

        Args:
            visible: whether to leave out what other parts hide.
        """
        count, parts = self.part_type.shape
        stamps = Stamps(
            type=self.part_type.numpy(),
            present=self.part_mask.numpy(),
            pose=self.part_pose.numpy(),
            form=self.part_form.numpy(),
            brightness=np.ones((count, parts)),
            texture=np.zeros((count, parts, 3)),
        )
        return torch.from_numpy(masks(self.world.parts, stamps, self.images.shape[-1], visible=visible))

    def whole_masks(self, *, visible: bool = False) -> Tensor:
        """The share of each pixel that the parts of each whole cover, float32 `[N, W, size, size]`.

        Args:
            visible: whether to leave out what other parts hide.
        """
        parts = self.part_masks(visible=visible)
        result = parts.new_zeros(len(self), self.whole_type.shape[1], *parts.shape[2:])
        for whole in range(result.shape[1]):
            mine = (self.part_whole == whole)[..., None, None]
            if parts.shape[1]:
                result[:, whole] = (parts * mine).amax(1)
        return result

    def image_set(self) -> ImageSet:
        """The images and labels as a data set, with the truth as metadata; poses are float32 there.

        `part_numbers`, `whole_numbers` and so on are the poses as x, y, angle and scale.
        """
        metadata = {}
        for name, values in self.truth().items():
            if values.numel():
                metadata[name] = values.float() if values.is_floating_point() else values
                if name.endswith("_pose"):
                    metadata[name.replace("_pose", "_numbers")] = pose_numbers(values).float()
        return ImageSet(self.images, self.labels, self.classes, metadata)


_LEVELS = ("part", "whole", "group", "decoy")


def world_kinds(world: World) -> tuple[str, ...]:
    """The kinds of scenes that a world has: groups and ambiguous scenes only if it has groups.

    >>> from torchcaps.data.worlds.faces import FACES
    >>> world_kinds(FACES)
    ('parts', 'single', 'scrambled', 'crowded', 'twins')
    """
    return tuple(kind for kind in KINDS if world.groups or kind not in ("ambiguous", "groups"))


def draw_world(
    world: World,
    kind: str,
    count: int,
    *,
    seed: int = 0,
    start: int = 0,
    split: str = "train",
    options: SceneOptions | None = None,
) -> Scenes:
    """Draw the scenes `start` … `start + count - 1` of an endless sequence.

    A scene depends on the world, the kind, the split, the seed, its index and the options, and on nothing
    else: it has the same bits in a batch of any size.

    Args:
        world: what to draw from.
        kind: one of `world_kinds(world)`.
        count: number of scenes.
        seed: names the sequence.
        start: index of the first scene.
        split: other splits have other scenes.
        options: what they look like.
    """
    check_choice("kind", kind, world_kinds(world))
    check_count("count", count)
    check_count("seed", seed, 0)
    check_count("start", start, 0)
    options = SceneOptions() if options is None else options
    chunks = []
    for first in range(start, start + count, _CHUNK):
        numbers = SceneNumbers(
            f"{world.name}/{kind}/{split}", seed, range(first, min(first + _CHUNK, start + count))
        )
        layout = compose_scenes(world, kind, numbers, options)
        chunks.append((layout, _draw(world, layout, numbers, options)))
    layouts = [layout for layout, _ in chunks]
    truth = _join(layouts)
    labels, classes = _labels(world, kind, truth)
    images = torch.from_numpy(np.concatenate([image for _, image in chunks]))
    return Scenes(world=world, images=images[:, None], labels=labels, classes=classes, **truth)


def _draw(world: World, layout: Layout, numbers: SceneNumbers, options: SceneOptions) -> np.ndarray:
    """Images uint8 `[N, size, size]`."""
    parts = layout.parts
    count = parts.type.shape[1]
    # The parts come first: what is behind them then changes nothing about them.
    brightness = numbers.uniform(_DIMMEST, _BRIGHTEST, count)
    direction, phase = numbers.uniform(-math.pi, math.pi, count), numbers.uniform(0, 1, count)
    texture = np.stack([direction, phase, np.full_like(phase, 0.5 * options.texture)], axis=-1)
    canvas = background(numbers, options.size, options.texture)
    paint(canvas, BACKDROP, backdrop_stamps(numbers, options, layout.wholes.pose))
    paint(canvas, world.parts, Stamps(parts.type, parts.mask, parts.pose, layout.form, brightness, texture))
    if options.noise:
        canvas += np.float32(options.noise) * numbers.normal(options.size, options.size)
    return np.rint(np.clip(canvas, 0, 1) * 255).astype(np.uint8)


def _join(layouts: list[Layout]) -> dict[str, Tensor]:
    def joined(level: str, attribute: str) -> Tensor:
        rows = [getattr(getattr(layout, f"{level}s"), attribute) for layout in layouts]
        return torch.from_numpy(np.concatenate(rows))

    truth = {f"{level}_{name}": joined(level, name) for level in _LEVELS for name in ("mask", "type", "pose")}
    truth["part_whole"] = joined("part", "parent")
    truth["whole_group"] = joined("whole", "parent")
    truth["part_form"] = torch.from_numpy(np.concatenate([layout.form for layout in layouts]))
    return truth


def _labels(world: World, kind: str, truth: dict[str, Tensor]) -> tuple[Tensor, tuple[str, ...]]:
    whole = truth["whole_type"]
    if kind == "parts":
        return truth["part_type"], world.part_names
    if kind == "groups":
        return truth["group_type"][:, 0], world.group.names
    if kind == "scrambled":
        nothing = torch.full_like(whole[:, 0], len(world.wholes))
        return torch.where(truth["whole_mask"][:, 0], whole[:, 0], nothing), (*world.whole.names, NOTHING)
    return whole[:, 0] if kind == "single" else whole, world.whole.names


def load_world(
    world: World,
    split: str,
    kind: str,
    count: int | None,
    seed: int,
    options: SceneOptions,
    *,
    test_angle: Range | None,
    test_scale: Range | None,
    test_offset: Range | None,
) -> ImageSet:
    """The scenes of a world as a data set.

    Args:
        world: where they come from.
        split: `"train"` or `"test"`.
        kind: of the scenes.
        count: number of scenes; `None` for `COUNT`.
        seed: other numbers give other scenes.
        options: of the train split.
        test_angle: replaces the range of angles in the test split; `None` to keep it.
        test_scale: the same for scales.
        test_offset: the same for offsets.
    """
    check_choice("split", split, tuple(COUNT))
    ranges: dict[str, Any] = {"angle": test_angle, "scale": test_scale, "offset": test_offset}
    if split == "test":
        options = replace(options, **{name: value for name, value in ranges.items() if value is not None})
    count = COUNT[split] if count is None else check_count("count", count)
    return draw_world(world, kind, count, seed=seed, split=split, options=options).image_set()
