"""The active paths of a capsule network: from the class capsules down to the primary ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer, ConcurrentCaps
from torchcaps.models.base import capsule_inputs
from torchcaps.parsing.fields import receptive_fields, spread
from torchcaps.parsing.tree import Names, Node, ParseTree, mask_box
from torchcaps.parsing.words import read_pose, type_name
from torchcaps.poses import PoseSpace
from torchcaps.routing import RoutingOutput


class Level(NamedTuple):
    """The N capsules of one layer.

    Attributes:
        name: `"class"`, `"primary"`, or that of the layer inside the model.
        pose: `[B, N, D]`.
        activation: `[B, N]`.
        types: number of types; capsule n has the type n modulo this, and the position n divided by it.
        grid: height and width of the positions, or `None`.
        space: pose space; `None` for primary capsules.
    """

    name: str
    pose: Tensor
    activation: Tensor
    types: int
    grid: tuple[int, int] | None
    space: PoseSpace | None


class Link(NamedTuple):
    """Who gives how much to whom, between N children and P·J parents.

    Attributes:
        field: which child is at each place of each parent's field, int64 `[P, I]`; N for none.
        coupling: `[B, P, I, J]`.
    """

    field: Tensor
    coupling: Tensor


def parse_paths(
    model: nn.Module, images: Tensor, names: Names, threshold: float, children: int
) -> list[ParseTree]:
    """One tree for each image `[B, C, H, W]`; see `torchcaps.parse`."""
    levels, links = capsule_levels(model, images)
    fields = receptive_fields(model, images[0])
    return [
        _build(number, image, levels, links, fields, names, threshold, children)
        for number, image in enumerate(images)
    ]


def capsule_levels(model: nn.Module, images: Tensor) -> tuple[list[Level], list[Link]]:
    """The capsules of each layer from the bottom up, and the links between them.

    Raises:
        ValueError: the network has no capsule layers.

    Example:
        >>> from torchcaps import create_model
        >>> model = create_model("matrix_capsnet_small", num_classes=2, in_channels=1, image_size=28)
        >>> levels, links = capsule_levels(model.eval(), torch.rand(1, 1, 28, 28))
        >>> [(level.name, level.types, level.grid) for level in levels]
        [('primary', 8, (12, 12)), ('first', 16, (5, 5)), ('second', 16, (3, 3)), ('class', 2, None)]
        >>> [tuple(link.coupling.shape) for link in links]
        [(1, 25, 72, 16), (1, 9, 144, 16), (1, 1, 144, 2)]
    """
    _, inputs = capsule_inputs(model, images)
    if not inputs:
        raise ValueError(
            f"a parse tree needs a network with capsule layers, and {type(model).__name__} has none"
        )
    routed = _outputs(model, inputs)
    first = len(inputs) - 1
    # Layers that are not one above the other, such as those of two branches, end the chain.
    while first and routed[first - 1].activation[0].numel() == inputs[first][2].activation[0].numel():
        first -= 1
    bottom = inputs[first][2]
    levels = [_level("primary", bottom.pose, bottom.activation, None)]
    links = []
    for number in range(first, len(inputs)):
        name, layer, children = inputs[number]
        output = routed[number]
        votes = layer.votes(children)
        assert output.coupling is not None
        coupling = output.coupling.flatten(1, 2) if votes.grid else output.coupling.unsqueeze(1)
        index = votes.index
        if index is None:
            index = torch.arange(votes.children, device=coupling.device).unsqueeze(0)
        links.append(Link(index, coupling.clamp(0, 1)))
        top = number == len(inputs) - 1
        levels.append(_level("class" if top else name, output.pose, output.activation, layer.space))
    return levels, links


def _outputs(model: nn.Module, inputs: list[tuple[str, CapsuleLayer, Capsules]]) -> list[RoutingOutput]:
    """The output of each capsule layer with its couplings; of layers that are routed together, the last."""
    together: dict[int, RoutingOutput] = {}
    for stack in model.modules():
        if isinstance(stack, ConcurrentCaps):
            below = [children for _, layer, children in inputs if layer is stack.layers[0]]
            if below:
                together |= {
                    id(layer): output for layer, output in zip(stack.layers, stack.history(below[-1])[-1])
                }
    return [
        together[id(layer)] if id(layer) in together else layer(children, coupling=True)
        for _, layer, children in inputs
    ]


def _level(name: str, pose: Tensor, activation: Tensor, space: PoseSpace | None) -> Level:
    grid = (pose.shape[1], pose.shape[2]) if pose.ndim == 5 else None
    return Level(name, pose.flatten(1, -2), activation.flatten(1), pose.shape[-2], grid, space)


def _build(
    sample: int,
    image: Tensor,
    levels: list[Level],
    links: list[Link],
    fields: Tensor,
    names: Names,
    threshold: float,
    children: int,
) -> ParseTree:
    height, width = image.shape[1:]
    activation = levels[-1].activation[sample].float().cpu().numpy()
    order = np.argsort(-activation, kind="stable")
    active = [int(number) for number in order[:children] if activation[number] >= threshold]
    shown = active or [int(order[0])]
    nodes = [_node(levels[-1], sample, number, names) for number in shown]
    for node, mask in zip(nodes, _masks(sample, shown, levels, links, fields, (height, width))):
        node.mask, node.box = mask, mask_box(mask)
    tree = ParseTree((height, width), list(nodes), image=image.detach().cpu())
    for level, link in zip(reversed(levels[:-1]), reversed(links)):
        below = _choose(level, link, sample, shown, children)
        shown, next_nodes = [], []
        for node, chosen in zip(nodes, below):
            for number, coupling, share in chosen:
                child = _node(level, sample, number, names)
                child.coupling, child.share = coupling, share
                if level is levels[0]:
                    left, top, right, bottom = fields[
                        number // level.types if level.grid else number
                    ].tolist()
                    child.box = (left, top, right, bottom)
                node.children.append(child)
                shown.append(number)
                next_nodes.append(child)
        nodes = next_nodes
    return tree


def _node(level: Level, sample: int, number: int, names: Names) -> Node:
    kind = number % level.types
    name = type_name(names.classes, kind, "class") if level.name == "class" else f"{level.name} {kind}"
    pose = tuple(level.pose[sample, number].tolist())
    node = Node(level.name, kind, name, min(1.0, float(level.activation[sample, number])), pose)
    if level.grid is not None:
        row, column = divmod(number // level.types, level.grid[1])
        node.position = (row, column)
    if level.space is not None:
        node.reading = read_pose(level.space, pose)
    return node


def _choose(
    level: Level, link: Link, sample: int, parents: list[int], count: int
) -> list[list[tuple[int, float, float]]]:
    """For each parent: number, coupling and share of the children that give it most.

    Each child is left to the parent that takes most of it; of equal ones, to the first.
    """
    total = level.activation.shape[1]
    types = link.coupling.shape[-1]
    coupling = np.zeros((len(parents), total + 1))
    for row, parent in enumerate(parents):
        position, kind = divmod(parent, types)
        coupling[row, link.field[position].cpu().numpy()] = (
            link.coupling[sample, position, :, kind].float().cpu()
        )
    coupling = coupling[:, :total]  # the last place took what is outside the image
    given = coupling * level.activation[sample].float().clamp(min=0).cpu().numpy()
    sums = given.sum(1, keepdims=True)
    share = given / np.where(sums > 0, sums, 1.0)
    owner = coupling.argmax(0)
    result = []
    for row in range(len(parents)):
        mine = np.flatnonzero((owner == row) & (share[row] > 0))
        best = mine[np.argsort(-share[row, mine], kind="stable")[:count]]
        result.append([(int(n), float(coupling[row, n]), float(share[row, n])) for n in best])
    return result


def _masks(
    sample: int,
    shown: list[int],
    levels: list[Level],
    links: list[Link],
    fields: Tensor,
    size: tuple[int, int],
) -> Tensor:
    """Masks `[S, H, W]`: what the positions of the primary capsules give to each class in the end.

    A capsule passes on what it gives to its parents times what these give: couplings and activations are
    multiplied along each path and added over all paths.
    """
    flow = torch.zeros(len(shown), levels[-1].activation.shape[1])
    flow[torch.arange(len(shown)), torch.tensor(shown)] = 1.0
    for level, link in zip(reversed(levels[:-1]), reversed(links)):
        coupling = link.coupling[sample].float().cpu()  # [P, I, J]
        parents = flow.unflatten(1, (len(coupling), -1))
        to_fields = torch.einsum("pij,spj->spi", coupling, parents).flatten(1)
        total = level.activation.shape[1]
        flow = torch.zeros(len(shown), total + 1).index_add(1, link.field.cpu().flatten(), to_fields)
        flow = flow[:, :total] * level.activation[sample].float().cpu().clamp(0, 1)
    bottom = levels[0]
    weight = flow.unflatten(1, (-1, bottom.types)).mean(-1) if bottom.grid else flow
    return spread(weight, fields, *size)
