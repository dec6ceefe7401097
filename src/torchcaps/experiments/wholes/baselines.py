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


def make_trunk(name: str, channels: int) -> nn.Sequential:
    """Convolutions that give `2 · channels` features at a quarter of the resolution.

    Args:
        name: `"detector"` for those of `PartDetector`, or `"resnet"`.
        channels: as in `PartDetector`.
    """
    check_choice("trunk", name, TRUNKS)
    return trunk_of(PartDetector(1, 1, channels) if name == "detector" else resnet_detector(1, channels))


def trunk_of(detector: PartDetector) -> nn.Sequential:
    """The convolutions of a part detector without its heads, not copied."""
    return nn.Sequential(detector.first, detector.trunk)


def resnet_detector(kinds: int, channels: int) -> PartDetector:
    """A part detector on a ResNet: to pretrain it with the same scenes and the same loss as capsules.

    The ResNet has one block at half and three at a quarter of the resolution, and about as many weights as
    the detector of the capsules.

    Args:
        kinds: number of kinds of parts.
        channels: of the first blocks; the others have twice as many.

    Example:
        >>> import torch
        >>> resnet_detector(3, 8)(torch.rand(2, 1, 64, 64)).logits.shape
        torch.Size([2, 3, 32, 32])
    """
    detector = PartDetector(1, kinds, channels)
    wide = 2 * channels
    detector.first = nn.Sequential(
        nn.Conv2d(1, channels, 3, 2, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        _Block(channels, channels),
    )
    detector.trunk = nn.Sequential(_Block(channels, wide, stride=2), _Block(wide, wide), _Block(wide, wide))
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
        # A 1×1 convolution of stride 2 ignores three places of four, and crashes PyTorch 2 on some CPUs
        # when it has few channels and the memory format is channels-last.
        shrink = nn.AvgPool2d(2, ceil_mode=True) if stride == 2 else nn.Identity()
        self.shortcut = (
            nn.Identity()
            if in_channels == channels and stride == 1
            else nn.Sequential(
                shrink, nn.Conv2d(in_channels, channels, 1, bias=False), nn.BatchNorm2d(channels)
            )
        )

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.body(features) + self.shortcut(features))
