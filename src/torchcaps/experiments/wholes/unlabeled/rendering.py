"""Drawing templates of parts at similarity poses, so that gradients reach poses and templates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps._checks import check_count, check_tensor

# A template covers what is brighter than this share of its brightest pixel.
COVER_THRESHOLD = 0.15
# Poses with a smaller squared scale are drawn as if they had this one.
_MIN_SQUARE = 1e-4


def place_templates(
    templates: Tensor, kind: Tensor, pose: Tensor, size: int, *, oversample: int = 1
) -> Tensor:
    """Draw a template at each pose, on a black image of its own.

    The square of a template reaches from -1 to 1 in the coordinates of its part, with y up; the pose maps
    these to the coordinates of the image, as in `torchcaps.data.worlds.flat`.

    Args:
        templates: brightness, `[T, S, S]`; or with channels, `[T, C, S, S]`.
        kind: index of the template, int64 `[B, K]`.
        pose: similarities (a, b, x, y), `[B, K, 4]`.
        size: pixels along each side of the images.
        oversample: draw with so many pixels per pixel along each side and take means, for small parts.

    Returns:
        Images `[B, K, size, size]`, or `[B, K, C, size, size]`.

    Example:
        >>> square = torch.ones(1, 8, 8)
        >>> half = torch.tensor([[[0.5, 0.0, 0.0, 0.0]]])
        >>> place_templates(square, torch.zeros(1, 1, dtype=torch.int64), half, 4)[0, 0]
        tensor([[0., 0., 0., 0.],
                [0., 1., 1., 0.],
                [0., 1., 1., 0.],
                [0., 0., 0., 0.]])
    """
    check_tensor("templates", templates, "T S S" if templates.ndim == 3 else "T C S S")
    check_tensor("pose", pose, "B K D", D=4)
    batch, count = pose.shape[:2]
    fine = check_count("size", size) * check_count("oversample", oversample)
    x = (2 * torch.arange(fine, dtype=pose.dtype, device=pose.device) + 1) / fine - 1
    a, b, left, up = (each[..., None, None] for each in pose.flatten(0, 1).unbind(-1))
    square = (a * a + b * b).clamp(min=_MIN_SQUARE)
    across, along = x - left, -x[:, None] - up  # [B·K, 1, N] and [B·K, N, 1]
    grid = torch.stack([(a * across + b * along) / square, (b * across - a * along) / square], -1)
    drawn = F.grid_sample(
        (templates if templates.ndim == 4 else templates.unsqueeze(1))[kind.flatten()].to(pose.dtype),
        grid,
        mode="bilinear",
        align_corners=False,
    )
    if oversample > 1:
        drawn = F.avg_pool2d(drawn, oversample)
    return drawn.view(batch, count, *templates.shape[1:-2], size, size)


def draw_sum(templates: Tensor, kind: Tensor, pose: Tensor, brightness: Tensor, size: int) -> Tensor:
    """Images `[B, 1, size, size]` of parts that do not hide each other: the sum of what is drawn.

    Args:
        templates: `[T, S, S]`.
        kind: `[B, K]`.
        pose: `[B, K, 4]`.
        brightness: factor of each part, 0 for none, `[B, K]`.
        size: pixels along each side.
    """
    drawn = place_templates(templates, kind, pose, size)
    return (drawn * brightness[..., None, None]).sum(1, keepdim=True)


@torch.no_grad()
def draw_over(
    templates: Tensor, kind: Tensor, pose: Tensor, brightness: Tensor, size: int, *, gap: int = 1
) -> Tensor:
    """Images `[B, 1, size, size]` in which later parts hide earlier ones, with a dark gap around each.

    Args:
        templates: `[T, S, S]`.
        kind: `[B, K]`.
        pose: `[B, K, 4]`.
        brightness: `[B, K]`, 0 for none.
        size: pixels along each side.
        gap: width of the gap in pixels; 0 for none.
    """
    layers = torch.stack([templates, template_covers(templates)], 1)
    drawn, covers = place_templates(layers, kind, pose, size, oversample=2).unbind(2)
    if gap:
        wide = F.max_pool2d(covers, 2 * gap + 1, stride=1, padding=gap)
        # The widest pixel of the gap is half dark: a part does not reach a full pixel beyond its border.
        covers = torch.maximum(covers, 0.7 * wide)
    canvas = drawn.new_zeros(len(kind), size, size)
    for layer in range(kind.shape[1]):
        present = (brightness[:, layer] > 0).to(drawn)[:, None, None]
        light = brightness[:, layer, None, None] * drawn[:, layer]
        canvas = canvas * (1 - present * covers[:, layer]) + light
    return canvas.clamp(0, 1).unsqueeze(1)


def template_covers(templates: Tensor) -> Tensor:
    """1 where a template covers what is behind it, else 0, `[T, S, S]`."""
    return (templates > COVER_THRESHOLD * templates.amax((1, 2), keepdim=True)).to(templates)
