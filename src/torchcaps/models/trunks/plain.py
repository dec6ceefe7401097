from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps.models.base import conv_extent
from torchcaps.models.trunks.base import Trunk, conv_bn_relu, shrunk


class Conv5(Trunk):
    """The single 5×5 convolution of the 2018 paper, stride 2, 32 channels, ReLU.

    It is the weakest part of the matrix capsule networks: every capsule sees 5×5 pixels through one layer.

    Args:
        in_channels: channels of an image.

    Example:
        >>> Conv5(2).grid((32, 32))
        (14, 14)
    """

    out_channels = 32

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(check_count("in_channels", in_channels), self.out_channels, 5, 2)

    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """Nearly half of the image: there is no padding."""
        height, width = (conv_extent("conv5", "convolution", size, 5, 2) for size in image_size)
        return height, width

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, 32, H', W']`."""
        return torch.relu(self.conv(images))


class Conv6(Trunk):
    """The smallNORB trunk of Hahn et al. 2019: six 3×3 convolutions with batch normalization and ReLU.

    They have 16, 32, 32, 64, 64 and 128 channels and strides 1, 2, 1, 2, 1, 2.

    Args:
        in_channels: channels of an image.

    Example:
        >>> Conv6(1).grid((32, 32))
        (4, 4)
    """

    out_channels = 128
    strides = (1, 2, 1, 2, 1, 2)

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        widths = [check_count("in_channels", in_channels), 16, 32, 32, 64, 64, 128]
        self.layers = nn.Sequential(
            *(
                conv_bn_relu(narrow, wide, stride)
                for (narrow, wide), stride in zip(pairwise(widths), self.strides)
            )
        )

    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """An eighth of the image, rounded up."""
        return shrunk(image_size, self.strides)

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, 128, H/8, W/8]`."""
        return self.layers(images)


class Conv9(Trunk):
    """The trunk of the CapsNets of 2017 and 2020 with 64 channels: a 9×9 convolution, and one of stride 2.

    Args:
        in_channels: channels of an image.

    Example:
        >>> Conv9(1).grid((40, 40))
        (12, 12)
    """

    out_channels = 64

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(check_count("in_channels", in_channels), 64, 9),
            nn.ReLU(),
            nn.Conv2d(64, 64, 9, stride=2),
            nn.ReLU(),
        )

    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """Half of what is left without the borders."""
        height, width = (
            conv_extent(
                "conv9", "second convolution", conv_extent("conv9", "first convolution", size, 9), 9, 2
            )
            for size in image_size
        )
        return height, width

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, 64, H', W']`."""
        return self.layers(images)


class CoordConv6(Trunk):
    """The smallNORB trunk of Heinsen 2019: six times batch normalization, 3×3 convolution and SiLU.

    The row and the column of each pixel are two more channels of the image. The convolutions have strides 1,
    2, 1, 2, 1, 2 and no padding.

    Args:
        in_channels: channels of an image.
        channels: of all convolutions.

    Example:
        >>> CoordConv6(2).grid((48, 48))
        (3, 3)
    """

    out_channels = 64
    strides = (1, 2, 1, 2, 1, 2)

    def __init__(self, in_channels: int, channels: int = 64) -> None:
        super().__init__()
        self.out_channels = check_count("channels", channels)
        layers: list[nn.Module] = []
        widths = [check_count("in_channels", in_channels) + 2, *[channels] * len(self.strides)]
        for (narrow, wide), stride in zip(pairwise(widths), self.strides):
            layers += [nn.BatchNorm2d(narrow), nn.Conv2d(narrow, wide, 3, stride), nn.SiLU()]
        self.layers = nn.Sequential(*layers)

    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """About an eighth of the image, less three places for the borders."""
        height, width = image_size
        for number, stride in enumerate(self.strides, 1):
            height, width = (
                conv_extent("coordconv6", f"convolution {number}", size, 3, stride)
                for size in (height, width)
            )
        return height, width

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, channels, H', W']`."""
        return self.layers(with_coordinates(images))


def with_coordinates(images: Tensor) -> Tensor:
    """Images with two more channels: the row and the column of each pixel, from -1 to 1.

    >>> with_coordinates(torch.zeros(1, 1, 2, 3))[0, 1:]
    tensor([[[-1., -1., -1.],
             [ 1.,  1.,  1.]],
    <BLANKLINE>
            [[-1.,  0.,  1.],
             [-1.,  0.,  1.]]])
    """
    batch, _, height, width = images.shape
    rows, columns = (
        torch.linspace(-1, 1, size, dtype=images.dtype, device=images.device) for size in (height, width)
    )
    grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij"))
    return torch.cat([images, grid.expand(batch, -1, -1, -1)], 1)
