"""Convolutional trunks: from images to the feature map that capsules or a dense layer read."""

from __future__ import annotations

from collections.abc import Callable

from torchcaps._checks import check_choice
from torchcaps.models.trunks.base import Trunk
from torchcaps.models.trunks.plain import Conv5, Conv6, Conv9, CoordConv6
from torchcaps.models.trunks.residual import PreActTrunk, ResNet16, ResNet20

TRUNKS: dict[str, Callable[[int], Trunk]] = {
    "conv5": Conv5,
    "conv6": Conv6,
    "conv9": Conv9,
    "coordconv6": CoordConv6,
    "preact": PreActTrunk,
    "resnet16": ResNet16,
    "resnet20": ResNet20,
}


def list_trunks() -> list[str]:
    """Names that `create_trunk` takes.

    >>> list_trunks()
    ['conv5', 'conv6', 'conv9', 'coordconv6', 'preact', 'resnet16', 'resnet20']
    """
    return list(TRUNKS)


def create_trunk(name: str, in_channels: int) -> Trunk:
    """Make a trunk by name.

    Args:
        name: one of `list_trunks()`.
        in_channels: channels of an image.
    """
    return TRUNKS[check_choice("trunk", name, list_trunks())](in_channels)
