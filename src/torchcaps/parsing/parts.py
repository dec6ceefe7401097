"""The parse tree of a `PartsCapsNet`: groups, wholes and parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.capsules import Instances
from torchcaps.layers import ParsedWholes
from torchcaps.models import PartsCapsNet
from torchcaps.parsing.tree import Names, Node, ParseTree, mask_box
from torchcaps.parsing.words import read_image_pose, type_name

# A part covers at most this radius, in units of its scale.
_REACH = 1.15
# Pixels of a part differ from the background by at least this share of what its brightest pixels do.
_CONTRAST = 0.35
_MIN_CONTRAST = 0.04


class _Kept(NamedTuple):
    """Nodes of one level by their index among the instances, and the index of each one's parent, or -1."""

    nodes: dict[int, Node]
    parent: list[int]


def parse_parts(model: PartsCapsNet, images: Tensor, names: Names, threshold: float) -> list[ParseTree]:
    """One tree for each image `[B, C, H, W]`; see `torchcaps.parse`."""
    found = model.parse(images)
    masks = part_masks(images, found.parts.pose, found.parts.activation)
    return [
        _build(
            images[number],
            _instances(found.parts, number),
            _wholes(found.wholes, number),
            None if found.groups is None else _wholes(found.groups, number),
            masks[number],
            names,
            threshold,
        )
        for number in range(len(images))
    ]


def _build(
    image: Tensor,
    parts: Instances,
    wholes: ParsedWholes,
    groups: ParsedWholes | None,
    masks: Tensor,
    names: Names,
    threshold: float,
) -> ParseTree:
    size = (image.shape[1], image.shape[2])
    top = _nodes("group", names.groups, groups.wholes, size, threshold) if groups is not None else {}
    middle = _nodes("whole", names.classes, wholes.wholes, size, threshold)
    used = {child for child, whole in enumerate(wholes.parent.tolist()) if whole in middle}
    present = {child for child, value in enumerate(parts.activation.tolist()) if 0 < value >= threshold}
    bottom = _nodes("part", names.parts, parts, size, 0.0, used | present)
    for number, node in bottom.items():
        node.mask = masks[number].cpu()
    _attach(middle, _Kept(bottom, wholes.parent.tolist()), wholes.coupling)
    grouped: set[int] = set()
    if groups is not None:
        grouped = _attach(top, _Kept(middle, groups.parent.tolist()), groups.coupling)
    for node in (*bottom.values(), *middle.values(), *top.values()):
        node.box = None if node.mask is None else mask_box(node.mask)
    # A group whose members are below the threshold is not shown.
    roots = [node for node in top.values() if node.children]
    roots += [node for number, node in middle.items() if number not in grouped]
    loose = [node for number, node in bottom.items() if number not in used]
    order = _by_presence
    return ParseTree(size, sorted(roots, key=order), sorted(loose, key=order), image.detach().cpu())


def _by_presence(node: Node) -> tuple[bool, float]:
    return node.level != "group", -node.presence


def _nodes(
    level: str,
    names: Sequence[str],
    found: Instances,
    size: tuple[int, int],
    threshold: float,
    only: set[int] | None = None,
) -> dict[int, Node]:
    nodes = {}
    kind = "kind" if level == "part" else level
    for number, (each, pose, presence) in enumerate(
        zip(found.kind.tolist(), found.pose.tolist(), found.activation.tolist())
    ):
        if not 0 < presence >= threshold or (only is not None and number not in only):
            continue
        name = type_name(names, each, kind)
        nodes[number] = Node(level, each, name, presence, tuple(pose), read_image_pose(pose, *size), True)
    return nodes


def _attach(parents: dict[int, Node], children: _Kept, coupling: Tensor) -> set[int]:
    """Put children below their parents and add up their masks; returns who has a parent."""
    attached = set()
    for number, node in children.nodes.items():
        parent = parents.get(children.parent[number])
        if parent is None:
            continue
        attached.add(number)
        node.coupling = min(1.0, float(coupling[number, children.parent[number]]))
        parent.children.append(node)
    for parent in parents.values():
        total = sum((child.coupling or 0.0) * child.presence for child in parent.children)
        for child in parent.children:
            assert child.coupling is not None
            child.share = child.coupling * child.presence / total if total else 0.0
            if child.mask is not None:
                mask = child.coupling * child.mask
                parent.mask = mask if parent.mask is None else parent.mask + mask
        parent.children.sort(key=lambda child: -(child.share or 0.0))
        if parent.children:
            # The frame of a type has its origin anywhere: the place of a whole is the middle of its parts.
            for axis in ("x", "y"):
                parent.reading[axis] = sum((c.share or 0.0) * c.reading[axis] for c in parent.children)
    return attached


@torch.no_grad()
def part_masks(images: Tensor, pose: Tensor, presence: Tensor) -> Tensor:
    """Which pixels belong to each part.

    These are the pixels near the center of a part, within a circle around its scale, that differ from the
    background, which is the median of the image's border. A pixel that fits several parts is divided among
    them, by presence and by the distance in units of each part's scale.

    Args:
        images: `[B, C, H, W]`.
        pose: similarities `[B, K, 4]` in the coordinates of the image.
        presence: `[B, K]`.

    Returns:
        Shares `[B, K, H, W]`, which add up to at most 1 over the parts.

    Example:
        >>> image = torch.zeros(1, 1, 32, 32)
        >>> image[..., 8:16, 8:16] = 1.0
        >>> mask = part_masks(image, torch.tensor([[[0.4, 0.0, -0.25, 0.25]]]), torch.ones(1, 1))
        >>> float(mask.sum()), float(mask[0, 0, 8:16, 8:16].sum())
        (64.0, 64.0)
    """
    height, width = images.shape[2:]
    unit = 2 / min(height, width)
    y, x = torch.meshgrid(
        (height / 2 - torch.arange(height, device=images.device) - 0.5) * unit,
        (torch.arange(width, device=images.device) + 0.5 - width / 2) * unit,
        indexing="ij",
    )
    square = pose[..., :2].square().sum(-1).clamp(min=1e-12)[..., None, None]
    distance = (x - pose[..., 2, None, None]).square() + (y - pose[..., 3, None, None]).square()
    distance = distance / square  # [B, K, H, W]
    near = distance <= _REACH**2
    border = torch.cat([images[..., 0, :], images[..., -1, :], images[..., :, 0], images[..., :, -1]], dim=-1)
    contrast = (images - border.median(-1).values[..., None, None]).abs().mean(1).unsqueeze(1)
    inside = torch.where(near, contrast, torch.nan).flatten(2)
    brightest = inside.nanquantile(0.9, dim=-1).nan_to_num(torch.inf)[..., None, None]
    mine = near & (contrast >= (_CONTRAST * brightest).clamp(min=_MIN_CONTRAST))
    weight = torch.where(mine, presence[..., None, None] * torch.exp(-2 * distance), 0.0)
    return weight / weight.sum(1, keepdim=True).clamp(min=1e-30)


def _instances(batch: Instances, number: int) -> Instances:
    """The instances of one sample."""
    return Instances(*(values[number] for values in batch))


def _wholes(batch: ParsedWholes, number: int) -> ParsedWholes:
    """The wholes of one sample."""
    return ParsedWholes(_instances(batch.wholes, number), batch.parent[number], batch.coupling[number])
