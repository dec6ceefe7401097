"""Reconstructions while the pose of a capsule is moved along a direction, and measures of what changes."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps._checks import check_tensor
from torchcaps.capsules import Capsules
from torchcaps.models import Model

STEPS = torch.linspace(-0.25, 0.25, 11)
DIMENSIONS, RANDOM = "dimensions", "random directions"
PROPERTIES = ("brightness", "x position", "y position", "width", "height", "slant")


def make_directions(dim: int, seed: int) -> dict[str, Tensor]:
    """The dimensions of the pose, and as many random orthogonal directions: rows of `[D, D]`."""
    generator = torch.Generator().manual_seed(seed)
    random, _ = torch.linalg.qr(torch.randn(dim, dim, generator=generator))
    return {DIMENSIONS: torch.eye(dim), RANDOM: random}


@torch.no_grad()
def reconstruct_moved(model: Model, capsules: Capsules, labels: Tensor, directions: Tensor) -> Tensor:
    """Reconstruct each sample from the capsule of its class, moved by S steps along K directions.

    Args:
        model: with a decoder.
        capsules: class capsules of N samples.
        labels: classes, `[N]`.
        directions: `[K, D]`.

    Returns:
        Images `[N, K, S, H, W]`.
    """
    count, rows = len(labels), torch.arange(len(labels))
    images = []
    for direction in directions:
        for step in STEPS:
            pose = capsules.pose.clone()
            pose[rows, labels] += step * direction
            images.append(model.reconstruct(Capsules(pose, capsules.activation), labels)[:, 0])
    return torch.stack(images, dim=1).view(count, len(directions), len(STEPS), *images[0].shape[1:])


def measure_effects(images: Tensor, labels: Tensor) -> dict[str, float]:
    """The columns of the table, in percent, mean over all directions and digits.

    Args:
        images: `[N, K, S, H, W]` of `reconstruct_moved`.
        labels: `[N]`.

    Returns:
        `change` between the first and the last image, `smallest` change of a direction, `straightness` of
        the path through all images, `consistency` within a class, and `concentration` of the change in one
        property.
    """
    difference = images[:, :, -1] - images[:, :, 0]
    change = difference.square().mean((2, 3)).sqrt()
    path = images.diff(dim=2).square().mean((3, 4)).sqrt().sum(2)
    changes = property_changes(images, labels)
    consistency, concentration = [], []
    for label in labels.unique():
        of_class = changes[labels == label]
        mean = of_class.mean(0)
        consistency.append(mean.square().sum(1) / of_class.square().sum(2).mean(0).clamp(min=1e-12))
        concentration.append(mean.square().amax(1) / mean.square().sum(1).clamp(min=1e-12))
    return {
        "change": 100 * float(change.mean()),
        "smallest": 100 * float(change.mean(0).min()),
        "straightness": 100 * float((change / path.clamp(min=1e-12)).mean()),
        "consistency": 100 * float(torch.cat(consistency).mean()),
        "concentration": 100 * float(torch.cat(concentration).mean()),
    }


def property_changes(images: Tensor, labels: Tensor) -> Tensor:
    """Change of each property from the first to the last step, `[N, K, 6]`.

    The unit is the standard deviation of the property within a class.
    """
    count, directions, steps = images.shape[:3]
    values = shape_properties(images.flatten(0, 2)).view(count, directions, steps, len(PROPERTIES))
    unmoved = values[:, 0, steps // 2]
    deviation = torch.stack([unmoved[labels == label].std(0) for label in labels.unique()])
    unit = deviation.square().mean(0).sqrt()
    return (values[:, :, -1] - values[:, :, 0]) / unit.clamp(min=1e-12)


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
