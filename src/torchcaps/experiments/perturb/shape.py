"""The shape of a drawing in six numbers: brightness, position, width, height and slant."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps._checks import check_tensor

PROPERTIES = ("brightness", "x position", "y position", "width", "height", "slant")


def shape_properties(images: Tensor) -> Tensor:
    """Measure gray images by their moments.

    Brightness is the sum of all pixels w. The position is the mean (x, y) weighted by w, in pixels to the
    right and down. Width and height are the standard deviations σ_x and σ_y weighted by w. Slant is
    −σ_xy / σ_y²: positive if the image leans to the right toward its top. An empty image has only zeros.

    Args:
        images: `[N, H, W]` in 0..1, bright strokes on black.

    Returns:
        `[N, 6]` in the order of `PROPERTIES`.

    Example:
        >>> bar = torch.zeros(1, 9, 9)
        >>> bar[:, 1:8, 4] = 1
        >>> shape_properties(bar)[0].round(decimals=3).abs()
        tensor([7., 4., 4., 0., 2., 0.])
    """
    check_tensor("images", images, "N H W")
    height, width = images.shape[1:]
    x = torch.arange(width, dtype=images.dtype, device=images.device)
    y = torch.arange(height, dtype=images.dtype, device=images.device)[:, None]
    brightness = images.sum((1, 2))
    weight = images / brightness.clamp(min=1e-12)[:, None, None]
    mean_x, mean_y = (weight * x).sum((1, 2)), (weight * y).sum((1, 2))
    x, y = x - mean_x[:, None, None], y - mean_y[:, None, None]
    var_x, var_y = (weight * x.square()).sum((1, 2)), (weight * y.square()).sum((1, 2))
    slant = (weight * x * -y).sum((1, 2)) / var_y.clamp(min=1e-12)
    return torch.stack([brightness, mean_x, mean_y, var_x.sqrt(), var_y.sqrt(), slant], dim=1)
