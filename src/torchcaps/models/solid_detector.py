"""Solid parts in stereo images: where parts of each kind are, with 4×4 poses in the camera's frame."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps.capsules import Capsules
from torchcaps.models.part_detector import PartDetector

# The camera of `torchcaps.data.worlds.toys.cameras`: networks do not depend on data sets.
DISTANCE = 6.0
HALF_FIELD = 0.178

STRIDE = 4
"""Pixels between neighboring places of a map."""
# A place starts with a presence of 1 %: most places hold no part.
_FIRST_LOGIT = -4.6
_NUMBERS = 10


class SolidMap(NamedTuple):
    """What a detector says about each place of an image, for T kinds of parts.

    Attributes:
        logits: presence before the sigmoid, `[B, T, H', W']`.
        axes: the expected directions of the part's z axis and x axis, as seen along the line of sight,
            `[B, T, H', W', 6]`; they are shorter than 1 where the direction is uncertain.
        view: where the part's center appears in the image (right, up, each -1 to 1) and how far it is in
            front of the point that the camera looks at, `[B, T, H', W', 3]`.
        log_scale: logarithm of its scale, `[B, T, H', W']`.
    """

    logits: Tensor
    axes: Tensor
    view: Tensor
    log_scale: Tensor


class SolidDetector(nn.Module):
    """A convolutional network that finds solid parts with 4×4 poses.

    The convolutions are those of `PartDetector` down to a quarter of the resolution. One head gives presence;
    one gives the pose as ten numbers: two axes of the part, its place in the image relative to the place in
    the map, its depth, and its scale. Rotations are relative to the line of sight, since the image of a part
    depends on that; `solid_poses` turns them into the camera's frame exactly.

    Args:
        in_channels: 2 for a stereo pair.
        kinds: number of kinds of parts, T.
        channels: channels of the first convolution; the deeper ones have twice as many.

    Example:
        >>> found = SolidDetector(2, 5)(torch.rand(3, 2, 48, 48))
        >>> found.logits.shape, found.axes.shape
        (torch.Size([3, 5, 12, 12]), torch.Size([3, 5, 12, 12, 6]))
    """

    def __init__(self, in_channels: int, kinds: int, channels: int = 24) -> None:
        super().__init__()
        self.kinds = check_count("kinds", kinds)
        wide = 2 * check_count("channels", channels)
        convolutions = PartDetector(in_channels, kinds, channels)
        self.first, self.trunk = convolutions.first, convolutions.trunk
        self.presence = nn.Conv2d(wide, kinds, 1)
        self.pose = nn.Sequential(
            nn.Conv2d(wide, 2 * wide, 1, bias=False),
            nn.BatchNorm2d(2 * wide),
            nn.ReLU(),
            nn.Conv2d(2 * wide, _NUMBERS * kinds, 1),
        )
        nn.init.constant_(self.presence.bias, _FIRST_LOGIT)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> SolidMap:
        """Presence and poses for images `[B, C, H, W]` in 0..1."""
        features = self.trunk(self.first(images))
        raw = self.pose(features).unflatten(1, (self.kinds, _NUMBERS)).movedim(2, -1)
        place = map_places(images.shape[2], images.shape[3], like=raw)
        distance = raw[..., 6:8] * (2 * STRIDE / min(images.shape[2:])) + place
        view = torch.cat([distance, raw[..., 8:9]], -1)
        return SolidMap(self.presence(features), raw[..., :6], view, raw[..., 9])


def map_places(height: int, width: int, *, like: Tensor) -> Tensor:
    """Coordinates (right, up) of the places of a map, `[H', W', 2]`, from -1 to 1.

    >>> map_places(8, 8, like=torch.zeros(1))[0, 1]
    tensor([0.1250, 0.8750])
    """
    unit = 2 / min(height, width)
    rows, columns = (
        # With this padding, place k is in the middle of pixel 4 k.
        (torch.arange(0, size, STRIDE, dtype=like.dtype, device=like.device) + 0.5 - size / 2) * unit
        for size in (height, width)
    )
    up, right = torch.meshgrid(-rows, columns, indexing="ij")
    return torch.stack([right, up], -1)


def positions(view: Tensor) -> Tensor:
    """Points in the camera's frame, `[..., 3]`, from (right, up, depth) `[..., 3]`.

    >>> positions(torch.tensor([0.0, 0.0, 0.5]))
    tensor([0.5000, 0.0000, 0.0000])
    """
    across = view[..., :2] * ((DISTANCE - view[..., 2:]) * HALF_FIELD)
    return torch.cat([view[..., 2:], across], -1)


def views(position: Tensor) -> Tensor:
    """The inverse of `positions`."""
    across = position[..., 1:] / ((DISTANCE - position[..., :1]) * HALF_FIELD)
    return torch.cat([across, position[..., :1]], -1)


def line_of_sight(position: Tensor) -> Tensor:
    """The smallest rotation `[..., 3, 3]` that turns the x axis towards the camera as seen from a point."""
    camera = position.new_tensor([DISTANCE, 0.0, 0.0])
    x, y, z = nn.functional.normalize(camera - position, dim=-1).unbind(-1)
    inverse = 1 / (1 + x)
    rows = [
        torch.stack([x, -y, -z], -1),
        torch.stack([y, 1 - y * y * inverse, -y * z * inverse], -1),
        torch.stack([z, -y * z * inverse, 1 - z * z * inverse], -1),
    ]
    return torch.stack(rows, -2)


def orthonormal(axes: Tensor) -> Tensor:
    """Rotations `[..., 3, 3]` from approximate z and x axes `[..., 6]`: x is made orthogonal to z.

    >>> orthonormal(torch.tensor([0.0, 0.0, 2.0, 1.0, 0.0, 1.0]))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    z = nn.functional.normalize(axes[..., :3], dim=-1)
    x = axes[..., 3:] - (axes[..., 3:] * z).sum(-1, keepdim=True) * z
    x = nn.functional.normalize(x, dim=-1)
    return torch.stack([x, torch.linalg.cross(z, x), z], -1)


def with_rotation(pose: Tensor, axes: Tensor) -> Tensor:
    """Poses `[..., 4, 4]` in the same place, turned as axes `[..., 6]` along the line of sight say."""
    scale = pose[..., :3, 0].norm(dim=-1)[..., None, None]
    position = pose[..., :3, 3]
    turned = scale * (line_of_sight(position) @ orthonormal(axes))
    return torch.cat([torch.cat([turned, position.unsqueeze(-1)], -1), pose[..., 3:, :]], -2)


def read_parts(found: SolidMap) -> Capsules:
    """The most present part of each kind, with the mean of the poses that the places around it give.

    Args:
        found: what a detector says.

    Returns:
        Poses `[B, T, 16]`, matrices [[s R, t], [0, 1]] in the camera's frame, and presences `[B, T]`.
    """
    presence = torch.sigmoid(found.logits)
    height, width = presence.shape[2:]
    flat = presence.flatten(2)
    highest, index = flat.max(-1)
    row, column = index // width, index % width
    rows, columns = (torch.arange(size, device=index.device) for size in (height, width))
    near = ((rows - row.unsqueeze(-1)).abs() <= 1).unsqueeze(-1) & (
        (columns - column.unsqueeze(-1)).abs() <= 1
    ).unsqueeze(-2)
    weight = (flat * near.flatten(2)).unsqueeze(-1)
    weight = weight / weight.sum(2, keepdim=True)
    position = (weight * positions(found.view).flatten(2, 3)).sum(2)
    axes = (weight * found.axes.flatten(2, 3)).sum(2)
    scale = (weight.squeeze(-1) * found.log_scale.flatten(2)).sum(2).exp()
    rough = torch.eye(4).to(scale).repeat(*scale.shape, 1, 1)
    rough[..., :3, :3] = rough[..., :3, :3] * scale[..., None, None]
    rough[..., :3, 3] = position
    return Capsules(with_rotation(rough, axes).flatten(2), highest)
