"""Parts in pixels: where parts of each kind are, and their poses."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps._pytrees import serializable
from torchcaps.capsules import Instances
from torchcaps.votes import at_least_float32

STRIDE = 2
"""Pixels between neighboring places of a part map."""
# Heads give sizes in units of 8 pixels and distances in units of 4, so that their outputs are near 1.
_SIZE_UNIT = 8.0
_DISTANCE_UNIT = 4.0
# A place starts with a presence of 1 %: most places hold no part.
_FIRST_LOGIT = -4.6
# Two maxima are one part if they are nearer than this, relative to the smaller one's scale.
_SAME_PART = 0.4


@serializable
class PartMap(NamedTuple):
    """What a detector says about each place of an image, for T kinds of parts.

    Attributes:
        logits: presence before the sigmoid, `[B, T, H', W']`.
        pose: similarities (a, b, x, y) in the coordinates of the image, `[B, T, H', W', 4]`.
    """

    logits: Tensor
    pose: Tensor


class PartDetector(nn.Module):
    """A convolutional network that finds parts, with a similarity as the pose of each.

    Five convolutions with batch normalization down to a quarter of the resolution, with a receptive field of
    55 pixels, then one that joins them with the first features at half of the resolution, and one head for
    presence and one for poses. The network gives the place of a part as seen from the place in the feature
    map, in pixels, and the coordinates of that place are added: shifting an image by 4 pixels shifts the
    poses and changes nothing else.

    Args:
        in_channels: channels of an image.
        kinds: number of kinds of parts, T.
        channels: channels of the first convolution; the deeper ones have twice as many.

    Example:
        >>> found = PartDetector(1, 3)(torch.rand(2, 1, 64, 64))
        >>> found.logits.shape, found.pose.shape
        (torch.Size([2, 3, 32, 32]), torch.Size([2, 3, 32, 32, 4]))
    """

    def __init__(self, in_channels: int, kinds: int, channels: int = 20) -> None:
        super().__init__()
        self.kinds = check_count("kinds", kinds)
        wide = 2 * check_count("channels", channels)
        self.first = nn.Sequential(*_block(in_channels, channels, 5, stride=2))
        self.trunk = nn.Sequential(
            *_block(channels, wide, 3, stride=2),
            *(layer for dilation in (1, 2, 1, 2) for layer in _block(wide, wide, 3, dilation=dilation)),
        )
        # From each deep place to the four places at twice the resolution.
        self.finer = nn.Sequential(*_block(wide, 4 * channels, 1), nn.PixelShuffle(2))
        self.join = nn.Sequential(*_block(2 * channels, channels, 3))
        self.presence = nn.Conv2d(channels, kinds, 1)
        self.pose = nn.Sequential(*_block(channels, wide, 1), nn.Conv2d(wide, 4 * kinds, 1))
        nn.init.constant_(self.presence.bias, _FIRST_LOGIT)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> PartMap:
        """Presence and poses for images `[B, C, H, W]`."""
        first = self.first(images)
        finer = self.finer(self.trunk(first))[..., : first.shape[2], : first.shape[3]]
        features = self.join(torch.cat([first, finer], 1))
        raw = self.pose(features).unflatten(1, (self.kinds, 4)).movedim(2, -1)
        height, width = images.shape[2:]
        unit = 2 / min(height, width)
        size, distance = raw[..., :2] * (_SIZE_UNIT * unit), raw[..., 2:] * (_DISTANCE_UNIT * unit)
        place = place_coordinates(height, width, like=raw)
        return PartMap(self.presence(features), torch.cat([size, distance + place], -1))


def place_coordinates(height: int, width: int, *, like: Tensor) -> Tensor:
    """Coordinates (x, y) of the places in a part map, `[H', W', 2]`.

    The middle of the image is 0, the nearer borders are at -1 and 1, and y goes up.

    Args:
        height: of the image in pixels.
        width: of the image in pixels.
        like: gives the dtype and device.

    Example:
        >>> place_coordinates(8, 8, like=torch.zeros(1))[0, 1]
        tensor([-0.3750,  0.8750])
    """
    unit = 2 / min(height, width)
    rows, columns = (
        # With this padding, place k is in the middle of pixel 2 k.
        (torch.arange(0, size, STRIDE, dtype=like.dtype, device=like.device) + 0.5 - size / 2) * unit
        for size in (height, width)
    )
    y, x = torch.meshgrid(-rows, columns, indexing="ij")
    return torch.stack([x, y], -1)


def propose_parts(found: PartMap, count: int) -> Instances:
    """The most present parts: local maxima over 3×3 places, for each kind on its own.

    Two maxima that are nearer than 0.4 of the smaller one's scale, of one kind or of two, are one part that
    was read twice: the less present one gets activation 0.

    Args:
        found: what a detector says.
        count: number of instances K. Where there are fewer maxima the rest have activation 0; where the map
            has fewer entries there are fewer instances.

    Returns:
        Instances `[B, K]`, the most present first.
    """
    check_count("count", count)
    presence = torch.sigmoid(found.logits)
    highest = F.max_pool2d(presence, 3, stride=1, padding=1)
    peaks = torch.where(presence == highest, presence, 0.0).flatten(1)
    activation, index = peaks.topk(min(count, peaks.shape[1]), dim=1)
    places = presence.shape[2] * presence.shape[3]
    kind = index // places
    pose = found.pose.flatten(1, 3).gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
    with torch.no_grad():
        precise = at_least_float32(pose)
        scale = precise[..., :2].norm(dim=-1)
        smaller = torch.minimum(scale.unsqueeze(1), scale.unsqueeze(2))
        place = precise[..., 2:]
        distance = (place.unsqueeze(1) - place.unsqueeze(2)).norm(dim=-1)  # ONNX has no torch.cdist
        near = distance < _SAME_PART * smaller
        again = near.tril(-1).any(2)
    return Instances(kind, pose, activation.masked_fill(again, 0.0))


def _block(
    in_channels: int, channels: int, kernel_size: int, *, stride: int = 1, dilation: int = 1
) -> tuple[nn.Module, ...]:
    padding = dilation * (kernel_size // 2)
    return (
        nn.Conv2d(in_channels, channels, kernel_size, stride, padding=padding, dilation=dilation, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
    )
