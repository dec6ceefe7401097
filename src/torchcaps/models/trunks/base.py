from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import nn


class Trunk(nn.Module, ABC):
    """A network without a classifier: images `[B, C, H, W]` to features `[B, out_channels, H', W']`.

    Attributes:
        out_channels: channels of the features.
    """

    out_channels: int

    @abstractmethod
    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """Height and width of the features of an image, or an error if the image is too small."""


def conv_bn_relu(in_channels: int, channels: int, stride: int = 1) -> nn.Sequential:
    """A padded 3×3 convolution without bias, batch normalization and ReLU."""
    return nn.Sequential(
        nn.Conv2d(in_channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
    )


def shrunk(image_size: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The size after padded 3×3 convolutions of these strides."""
    height, width = image_size
    for stride in strides:
        height, width = -(-height // stride), -(-width // stride)
    return height, width
