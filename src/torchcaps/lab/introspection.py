"""The input of a network's last capsule layer, recorded during the forward pass."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer
from torchcaps.models import Model, Output, capsule_inputs
from torchcaps.routing import RoutingOutput


class Inspection(NamedTuple):
    """A forward pass and its last capsule layer.

    Attributes:
        output: what the network returned.
        layer: its last capsule layer.
        children: the capsules that entered this layer.
    """

    output: Output
    layer: CapsuleLayer
    children: Capsules


@torch.no_grad()
def inspect_last_layer(model: Model, images: Tensor) -> Inspection:
    """Classify images and record the input of the last capsule layer, in one forward pass.

    >>> from torchcaps.models import create_model
    >>> inspect_last_layer(create_model("capsnet_small"), torch.rand(1, 1, 28, 28)).children.pose.shape
    torch.Size([1, 6, 6, 8, 8])
    """
    output, inputs = capsule_inputs(model, images)
    _, layer, children = inputs[-1]
    return Inspection(output, layer, children)


@torch.no_grad()
def sent_by_position(inspection: Inspection, steps: list[RoutingOutput]) -> Tensor:
    r"""How much each position of the grid sends to each class, `[iterations, classes, h, w]`.

    The coupling times the length of the child, :math:`c_{ij} \|u_i\|`, summed over the capsule types at a
    position.
    """
    _, height, width, types = inspection.children.activation.shape
    coupling = torch.stack([step.coupling[0] for step in steps if step.coupling is not None])
    sent = coupling * inspection.children.activation.reshape(1, -1, 1)
    return sent.unflatten(1, (height, width, types)).sum(3).permute(0, 3, 1, 2)


def class_capsules(output: Output) -> Capsules:
    """The class capsules of a network's output.

    Raises:
        ValueError: if the network has none.
    """
    if output.capsules is None:
        raise ValueError("this view needs a capsule network, but the network returned no capsules")
    return output.capsules
