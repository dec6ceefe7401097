"""CNNs beside capsules: the detector's own trunk with two heads, and a ResNet of as many weights."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import check_choice
from torchcaps.models.part_detector import PartDetector

TRUNKS = ("detector", "resnet")
HEADS = ("dense", "pooled")
# A dense layer sees the features of so many places along each side of the image.
DENSE_PLACES = 4


class ImageNetwork(nn.Module):
    """A trunk and a head that answers one question about an image, such as its class.

    Args:
        trunk: gives features `[B, C, H', W']`.
        width: number of features C.
        outputs: numbers in an answer.
        head: `"dense"` keeps 4×4 places apart, `"pooled"` takes the mean over all of them.

    Example:
        >>> import torch
        >>> network = ImageNetwork(make_trunk("resnet", 16), 32, outputs=8, head="pooled")
        >>> network(torch.zeros(2, 1, 64, 64, dtype=torch.uint8)).shape
        torch.Size([2, 8])
    """

    def __init__(self, trunk: nn.Module, width: int, *, outputs: int, head: str) -> None:
        super().__init__()
        places = DENSE_PLACES if check_choice("head", head, HEADS) == "dense" else 1
        self.trunk = trunk
        self.pool = nn.AdaptiveAvgPool2d(places)
        self.head = nn.Linear(width * places**2, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Answers `[B, outputs]` for images uint8 `[B, 1, H, W]`."""
        return self.head(self.pool(self.trunk(images.float() / 255)).flatten(1))


def make_trunk(name: str, channels: int) -> nn.Module:
    """Convolutions that give `2 · channels` features: those of `PartDetector`, or a ResNet.

    Args:
        name: `"detector"` or `"resnet"`.
        channels: as in `PartDetector`.
    """
    check_choice("trunk", name, TRUNKS)
    return PartDetector(1, 1, channels).trunk if name == "detector" else resnet_trunk(channels)


def resnet_trunk(channels: int) -> nn.Sequential:
    """A ResNet of stride 8 with three stages of two blocks, and about as many weights as a `PartDetector`.

    Args:
        channels: of the second stage; the first has half as many and the third twice as many.
    """
    first = channels // 2
    return nn.Sequential(
        nn.Conv2d(1, first, 3, 2, padding=1, bias=False),
        nn.BatchNorm2d(first),
        nn.ReLU(),
        _Block(first, first),
        _Block(first, first),
        _Block(first, channels, stride=2),
        _Block(channels, channels),
        _Block(channels, 2 * channels, stride=2),
        _Block(2 * channels, 2 * channels),
    )


def resnet_detector(kinds: int, channels: int) -> PartDetector:
    """A part detector on a ResNet: to pretrain it with the same scenes and the same loss as capsules.

    >>> import torch
    >>> resnet_detector(3, 8)(torch.rand(2, 1, 64, 64)).logits.shape
    torch.Size([2, 3, 16, 16])
    """
    detector = PartDetector(1, kinds, channels)
    detector.trunk = nn.Sequential(resnet_trunk(channels), nn.Upsample(scale_factor=2))
    return detector


class _Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, in_channels: int, channels: int, *, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut = (
            nn.Identity()
            if in_channels == channels and stride == 1
            else nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )
        )

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.body(features) + self.shortcut(features))
