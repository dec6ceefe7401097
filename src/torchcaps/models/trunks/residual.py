from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps.models.trunks.base import Trunk, conv_bn_relu, shrunk


class ResNet20(Trunk):
    """The CIFAR trunk of He et al. 2016: a convolution, then three stages of three basic blocks.

    The stages have 16, 32 and 64 channels, the second and third halve the size. A shortcut across a change of
    size takes every second pixel and fills the new channels with zeros (option A), so it has no weights.

    Args:
        in_channels: channels of an image.

    Example:
        >>> trunk = ResNet20(3)
        >>> trunk(torch.rand(1, 3, 32, 32)).shape, trunk.grid((32, 32))
        (torch.Size([1, 64, 8, 8]), (8, 8))
    """

    out_channels = 64

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.stem = conv_bn_relu(check_count("in_channels", in_channels), 16)
        widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
        self.blocks = nn.Sequential(
            *(BasicBlock(narrow, wide, stride=wide // narrow) for narrow, wide in pairwise(widths))
        )

    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """A quarter of the image, rounded up."""
        return shrunk(image_size, [2, 2])

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, 64, H/4, W/4]`."""
        return self.blocks(self.stem(images))


class ResNet16(Trunk):
    """The trunk of Tsai et al. 2020: a convolution, three basic blocks of 64 channels, four of 128.

    The fourth block halves the size; its shortcut is a 1×1 convolution with batch normalization.

    Args:
        in_channels: channels of an image.

    Example:
        >>> ResNet16(3).grid((32, 32))
        (16, 16)
    """

    out_channels = 128

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.stem = conv_bn_relu(check_count("in_channels", in_channels), 64)
        widths = [64, 64, 64, 64, 128, 128, 128, 128]
        self.blocks = nn.Sequential(
            *(
                BasicBlock(narrow, wide, stride=wide // narrow, projection=narrow != wide)
                for narrow, wide in pairwise(widths)
            )
        )

    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """Half of the image, rounded up."""
        return shrunk(image_size, [2])

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, 128, H/2, W/2]`."""
        return self.blocks(self.stem(images))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with batch normalization, added to a shortcut.

    Args:
        in_channels: channels of the input.
        channels: channels of the output.
        stride: of the first convolution.
        projection: make the shortcut a 1×1 convolution with batch normalization (option B), instead of the
            input itself with zeros for new channels (option A).
    """

    def __init__(self, in_channels: int, channels: int, stride: int = 1, *, projection: bool = False) -> None:
        super().__init__()
        self.stride = stride
        self.new_channels = channels - in_channels
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.projection: nn.Sequential | None = None
        if projection:
            conv = nn.Conv2d(in_channels, channels, 1, stride, bias=False)
            self.projection = nn.Sequential(conv, nn.BatchNorm2d(channels))

    def forward(self, features: Tensor) -> Tensor:
        """Features `[B, channels, H', W']`."""
        residual = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(features)))))
        return torch.relu(residual + self._shortcut(features))

    def _shortcut(self, features: Tensor) -> Tensor:
        if self.projection is not None:
            projected: Tensor = self.projection(features)
            return projected
        shortcut = features[:, :, :: self.stride, :: self.stride]
        before = self.new_channels // 2
        return nn.functional.pad(shortcut, (0, 0, 0, 0, before, self.new_channels - before))


class PreActTrunk(Trunk):
    """Five pre-activation residual blocks of 16, 16, 32, 32 and 64 channels: a light trunk for 32×32 images.

    The strides are 1, 2, 2, 2, 1. The trunk of the capsules of Özcan et al., which has these widths, halves
    the size once more; here a 32×32 image keeps a grid of 4×4, so that capsules have positions to vote from.

    Args:
        in_channels: channels of an image.

    Example:
        >>> trunk = PreActTrunk(2)
        >>> trunk(torch.rand(1, 2, 32, 32)).shape, trunk.grid((32, 32))
        (torch.Size([1, 64, 4, 4]), (4, 4))
    """

    out_channels = 64
    strides = (1, 2, 2, 2, 1)

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(check_count("in_channels", in_channels), 16, 3, padding=1, bias=False)
        widths = [16, 16, 16, 32, 32, 64]
        self.blocks = nn.Sequential(
            *(
                PreActBlock(narrow, wide, stride)
                for (narrow, wide), stride in zip(pairwise(widths), self.strides)
            )
        )
        self.bn = nn.BatchNorm2d(self.out_channels)

    def grid(self, image_size: Sequence[int]) -> tuple[int, int]:
        """An eighth of the image, rounded up."""
        return shrunk(image_size, self.strides)

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, 64, H/8, W/8]`."""
        return torch.relu(self.bn(self.blocks(self.stem(images))))


class PreActBlock(nn.Module):
    """Batch normalization and ReLU before each of two 3×3 convolutions (He et al. 2016).

    Args:
        in_channels: channels of the input.
        channels: channels of the output.
        stride: of the first convolution; where the size or the channels change, the shortcut is a 1×1
            convolution of the activated input.
    """

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.shortcut: nn.Conv2d | None = None
        if stride != 1 or in_channels != channels:
            self.shortcut = nn.Conv2d(in_channels, channels, 1, stride, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """Features `[B, channels, H', W']`."""
        active = torch.relu(self.bn1(features))
        residual = self.conv2(torch.relu(self.bn2(self.conv1(active))))
        return residual + (features if self.shortcut is None else self.shortcut(active))
