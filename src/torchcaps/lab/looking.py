from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer
from torchcaps.models import Model, Output


class Seen(NamedTuple):
    """A network's answer, with the children that its last capsule layer was given."""

    output: Output
    layer: CapsuleLayer
    children: Capsules


@torch.no_grad()
def look(model: Model, images: Tensor) -> Seen:
    """Classify, and keep what the last layer's routing needs, so that one pass serves both.

    >>> from torchcaps.models import create_model
    >>> look(create_model("capsnet_small"), torch.rand(1, 1, 28, 28)).children.pose.shape
    torch.Size([1, 6, 6, 8, 8])
    """
    layer = [module for module in model.modules() if isinstance(module, CapsuleLayer)][-1]
    seen: list[Capsules] = []
    stop = layer.watch(seen.append)
    try:
        output = model(images)
    finally:
        stop()
    return Seen(output, layer, seen[-1])


def class_capsules(output: Output) -> Capsules:
    """The class capsules of a capsule network."""
    if output.capsules is None:
        raise ValueError("this network has no capsules to look at")
    return output.capsules
