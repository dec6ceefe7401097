"""The rotation of solid parts, read from small windows around them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps.models.solid_detector import DISTANCE, HALF_FIELD

WINDOW = 24
"""Pixels along each side of a window."""
# Half of the angle between the two cameras, see `torchcaps.data.worlds.solids.drawing.EYES_APART`.
_HALF_ANGLE = math.radians(6.0)


class SolidReader(nn.Module):
    """A small network that looks at a part in both images and says how it is turned.

    A detector must know where in the image a part is and how it is turned at once; here the part is in the
    middle of both windows, and a dense layer has weights for every pixel. It gives the expected directions of
    the part's z axis and x axis, as seen along the line of sight; they are shorter than 1 where uncertain.

    Args:
        kinds: number of kinds of parts, T; each has its own outputs.
        channels: of the first convolution.

    Example:
        >>> reader = SolidReader(5)
        >>> reader(torch.rand(3, 2, 24, 24), torch.tensor([0, 4, 1])).shape
        torch.Size([3, 6])
    """

    def __init__(self, kinds: int, channels: int = 24) -> None:
        super().__init__()
        self.kinds = check_count("kinds", kinds)
        wide = 2 * check_count("channels", channels)
        self.layers = nn.Sequential(
            nn.Conv2d(2, channels, 5, 2, padding=2, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, wide, 3, 2, padding=1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.Conv2d(wide, wide, 3, padding=1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(wide * (WINDOW // 4) ** 2, 256, bias=False),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Linear(256, 6 * kinds),
        )

    def forward(self, windows: Tensor, kind: Tensor) -> Tensor:
        """Axes `[M, 6]` of parts of kinds `[M]` in windows `[M, 2, 24, 24]`."""
        axes = self.layers(windows).unflatten(1, (self.kinds, 6))
        return axes[torch.arange(len(kind), device=kind.device), kind]


def cut_windows(images: Tensor, index: Tensor, position: Tensor) -> Tensor:
    """Windows `[M, 2, 24, 24]` around points in the camera's frame, one for each camera.

    Args:
        images: `[N, 2, H, W]`.
        index: of the image of each point, int64 `[M]`.
        position: the points, `[M, 3]`. What lies outside of an image is black.
    """
    size = images.shape[-1]
    padded = nn.functional.pad(images, (WINDOW,) * 4)
    steps = torch.arange(WINDOW, device=images.device)
    windows = []
    for eye, sign in enumerate((-1.0, 1.0)):
        sine, cosine = sign * math.sin(_HALF_ANGLE), math.cos(_HALF_ANGLE)
        x, y, z = position.unbind(-1)
        depth = DISTANCE - (x * cosine + y * sine)
        right, up = (y * cosine - x * sine) / depth, z / depth
        column, row = (
            ((each / HALF_FIELD + 1) * (size / 2) - WINDOW / 2).round().long() + WINDOW
            for each in (right, -up)
        )
        column, row = (each.clamp(0, size + WINDOW) for each in (column, row))
        rows, columns = row[:, None, None] + steps[:, None], column[:, None, None] + steps
        windows.append(padded[index[:, None, None], eye, rows, columns])
    return torch.stack(windows, 1)
