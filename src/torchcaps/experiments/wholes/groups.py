"""Groups of wholes: trained from class labels on the wholes that are found, and whole trees compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.data.worlds.flat import SceneOptions, Scenes, World, draw_world
from torchcaps.experiments.wholes.parsing import assign_nearest, parse_all
from torchcaps.experiments.wholes.parts import HIT
from torchcaps.experiments.wholes.training import TRAINED_ANGLES, align_frames, scene_images, train_wholes
from torchcaps.layers import ParsedWholes
from torchcaps.models import PartsCapsNet
from torchcaps.models.parts_capsnet import ParsedImage


def train_groups(
    model: PartsCapsNet,
    world: World,
    *,
    count: int = 600,
    steps: int = 150,
    size: int = SceneOptions().size,
    seed: int = 0,
    log: Callable[[str], None] | None = None,
) -> None:
    """Train the groups of a network on the wholes that it finds in upright scenes, from class labels alone.

    Args:
        model: with groups; its parts and wholes are trained and do not change.
        world: what to draw.
        count: number of scenes.
        steps: of the optimizer.
        size: side of the scenes in pixels.
        seed: of the scenes and of the training.
        log: gets a line every 100 steps.
    """
    if model.groups is None:
        raise ValueError("the network has no groups: create it with groups = the number of types of groups")
    options = SceneOptions(angle=TRAINED_ANGLES, size=size)
    scenes = draw_world(world, "groups", count, seed=seed, options=options)
    wholes = parse_all(model, scene_images(scenes)).wholes.wholes
    train_wholes(model.groups, wholes, scenes.labels, steps=steps, seed=seed, log=log)
    align_frames(model.groups, wholes, scenes.labels, scenes.group_pose[:, 0])


class GroupQuality(NamedTuple):
    """How well scenes of groups are read.

    Attributes:
        named: share of groups whose type is right.
        exact: share of scenes whose whole tree is right, see `same_tree`.
        wholes: share of scenes in which wholes and their parts are right.
    """

    named: float
    exact: float
    wholes: float


def measure_groups(
    model: PartsCapsNet,
    world: World,
    *,
    count: int = 500,
    seed: int = 0,
    split: str = "test",
    options: SceneOptions | None = None,
) -> GroupQuality:
    """Read scenes with one group each, by default at all angles."""
    if model.groups is None:
        raise ValueError("the network has no groups: create it with groups = the number of types of groups")
    scenes = draw_world(world, "groups", count, seed=seed, split=split, options=options)
    found = parse_all(model, scene_images(scenes))
    with torch.no_grad():
        named = model.groups(found.wholes.wholes).logits.argmax(1) == scenes.labels
        groups = model.groups.parse(found.wholes.wholes, 2)
    wholes = same_wholes(found, scenes)
    return GroupQuality(
        float(named.float().mean()),
        float((wholes & _same_groups(found.wholes, groups, scenes)).float().mean()),
        float(wholes.float().mean()),
    )


def same_tree(found: ParsedImage, scenes: Scenes) -> Tensor:
    """Whether the tree of each scene is found exactly, bool `[B]`.

    Every part of every whole is found (its kind is right and its center at most 4 pixels away) and belongs to
    one whole of the right type together with exactly the parts that it should; every whole belongs to a group
    of the right type; and nothing else is found. Parts that belong to nothing may be there.
    """
    right = same_wholes(found, scenes)
    if found.groups is None:
        return right
    return right & _same_groups(found.wholes, found.groups, scenes)


def same_wholes(found: ParsedImage, scenes: Scenes) -> Tensor:
    """Whether all wholes with exactly their parts are found, and no others, bool `[B]`."""
    parent, wholes = found.wholes.parent, found.wholes.wholes
    true = scenes.part_mask & (scenes.part_whole >= 0)
    pose = scenes.part_pose.to(found.parts.pose)
    distance = torch.cdist(pose[..., 2:], found.parts.pose[..., 2:]) * scenes.images.shape[-1] / 2
    alike = (scenes.part_type.unsqueeze(2) == found.parts.kind.unsqueeze(1)) & true.unsqueeze(2)
    alike &= (parent >= 0).unsqueeze(1) & (distance <= HIT)
    index = assign_nearest(torch.where(alike, distance, torch.inf))
    right = ((index >= 0) == true).all(1) & ((parent >= 0).sum(1) == true.sum(1))
    mine = parent.gather(1, index.clamp(min=0))  # the whole that was found for each true part
    kind = wholes.kind.gather(1, mine.clamp(min=0))
    expected = scenes.whole_type.gather(1, scenes.part_whole.clamp(min=0))
    right &= ((kind == expected) | ~true).all(1)
    together = mine.unsqueeze(1) == mine.unsqueeze(2)
    should = scenes.part_whole.unsqueeze(1) == scenes.part_whole.unsqueeze(2)
    both = true.unsqueeze(1) & true.unsqueeze(2)
    right &= ((together == should) | ~both).all(2).all(1)
    return right & ((wholes.activation > 0).sum(1) == scenes.whole_mask.sum(1))


def _same_groups(wholes: ParsedWholes, groups: ParsedWholes, scenes: Scenes) -> Tensor:
    """Whether the one group of each scene is found with all wholes, and no other."""
    present = wholes.wholes.activation > 0
    one = (groups.wholes.activation > 0).sum(1) == 1
    right = groups.wholes.kind[:, 0] == scenes.group_type[:, 0]
    return one & right & ((groups.parent == 0) == present).all(1)
