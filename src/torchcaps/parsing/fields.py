"""Receptive fields: which pixels of an image a primary capsule sees."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcaps.models.base import capsule_inputs

# Images that are probed at a time.
_BATCH = 32


def receptive_fields(model: nn.Module, image: Tensor) -> Tensor:
    """The box of pixels that each position of the primary capsules depends on.

    It is found by gradients, for an image of noise: no knowledge about the network is needed. On a grid, the
    box of a position is given by its row and its column, so that only a diagonal is computed.

    Args:
        model: in evaluation mode.
        image: `[C, H, W]`; only its shape, device and type are used.

    Returns:
        int64 boxes (left, top, right, bottom) `[positions, 4]`; right and bottom are outside. Without a grid,
        every child has a position of its own.

    Example:
        >>> from torchcaps import create_model
        >>> model = create_model("capsnet_small", num_classes=2, in_channels=1, image_size=28).eval()
        >>> fields = receptive_fields(model, torch.zeros(1, 28, 28))
        >>> fields.shape, fields[7]
        (torch.Size([36, 4]), tensor([ 2,  2, 19, 19]))
    """
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(image.shape, generator=generator).to(image)
    _, inputs = capsule_inputs(model, noise.unsqueeze(0))
    shape = inputs[0][2].pose.shape[1:]
    grid = shape[:2] if len(shape) == 4 else None
    places: list[tuple[int, ...]]
    if grid is None:
        places = [(number,) for number in range(shape[0])]
    else:
        longer = range(max(grid))
        places = [(min(number, grid[0] - 1), min(number, grid[1] - 1)) for number in longer]
    boxes = torch.cat(
        [_probe(model, noise, places[start : start + _BATCH]) for start in range(0, len(places), _BATCH)]
    )
    if grid is None:
        return boxes
    rows, columns = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
    across, along = boxes[columns.flatten()], boxes[rows.flatten()]
    return torch.stack([across[:, 0], along[:, 1], across[:, 2], along[:, 3]], 1)


def _probe(model: nn.Module, noise: Tensor, places: list[tuple[int, ...]]) -> Tensor:
    with torch.enable_grad():
        images = noise.expand(len(places), *noise.shape).clone().requires_grad_()
        _, inputs = capsule_inputs(model, images)
        pose = inputs[0][2].pose
        # Random weights: what normalizes a pose may keep its sum constant.
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(pose.shape[len(places[0]) + 1 :], generator=generator).to(pose)
        indices = [(number, *place) for number, place in enumerate(places)]
        chosen = torch.stack([pose[index] for index in indices])
        (gradient,) = torch.autograd.grad((chosen * weight).sum(), images)
    return torch.stack([_box(each.abs().sum(0)) for each in gradient])


def _box(gradient: Tensor) -> Tensor:
    rows, columns = torch.nonzero(gradient, as_tuple=True)
    if not len(rows):
        return torch.tensor([0, 0, gradient.shape[1], gradient.shape[0]])
    return torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]).cpu()


def spread(weight: Tensor, fields: Tensor, height: int, width: int) -> Tensor:
    """Masks from numbers for each position: their mean over the fields that hold a pixel.

    Fields count most in their middle, as the influence of pixels on a convolutional network does.

    Args:
        weight: `[S, positions]`.
        fields: boxes `[positions, 4]`.
        height: of the image.
        width: of the image.

    Returns:
        `[S, H, W]`; 0 where no field is.

    Example:
        >>> fields = torch.tensor([[0, 0, 2, 2], [2, 0, 4, 2]])
        >>> spread(torch.tensor([[1.0, 0.5]]), fields, 2, 4)[0, 0]
        tensor([1.0000, 1.0000, 0.5000, 0.5000])
    """
    left, top, right, bottom = fields.to(weight).unbind(1)
    rows, columns = _window(top, bottom, height, weight), _window(left, right, width, weight)
    total = rows.T @ columns
    # Not a window for each position, which takes gigabytes for a large grid.
    return (weight.unsqueeze(1) * rows.T) @ columns / torch.where(total > 0, total, 1.0)


def _window(start: Tensor, end: Tensor, size: int, like: Tensor) -> Tensor:
    middle = torch.arange(size).to(like) + 0.5
    inside = (middle - start[:, None]) / (end - start)[:, None]
    return torch.where((inside > 0) & (inside < 1), torch.sin(torch.pi * inside).square(), 0.0)
