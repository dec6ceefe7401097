"""A drawn object in a few numbers: how much ink there is, where, how wide, how high and how slanted."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps._checks import check_tensor

PROPERTIES = ("ink", "place across", "place down", "width", "height", "slant")


def ink_properties(images: Tensor) -> Tensor:
    """Measure gray images by their moments.

    Ink is the sum of all pixels, w; place is the mean (x, y) under w, in pixels to the right and down; width
    and height are the standard deviations σ_x, σ_y under w; slant is −σ_xy / σ_y², the shear that leans the
    image to the right as it goes up. An empty image has all zeros.

    Args:
        images: `[N, H, W]`, bright ink on black, in 0..1.

    Returns `[N, 6]` in the order of `PROPERTIES`.

    Example:
        >>> bar = torch.zeros(1, 9, 9)
        >>> bar[:, 1:8, 4] = 1
        >>> ink_properties(bar)[0].round(decimals=3).abs()
        tensor([7., 4., 4., 0., 2., 0.])
    """
    check_tensor("images", images, "N H W")
    height, width = images.shape[1:]
    x = torch.arange(width, dtype=images.dtype, device=images.device)
    y = torch.arange(height, dtype=images.dtype, device=images.device)[:, None]
    ink = images.sum((1, 2))
    share = images / ink.clamp(min=1e-12)[:, None, None]
    across, down = (share * x).sum((1, 2)), (share * y).sum((1, 2))
    x, y = x - across[:, None, None], y - down[:, None, None]
    wide, high = (share * x.square()).sum((1, 2)), (share * y.square()).sum((1, 2))
    slant = (share * x * -y).sum((1, 2)) / high.clamp(min=1e-12)
    return torch.stack([ink, across, down, wide.sqrt(), high.sqrt(), slant], dim=1)
