"""Pairs of one image at two positions, or of one object from two sides, and the change between them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


class MovedPair(NamedTuple):
    """One image at two positions.

    Attributes:
        before: `[B, C, H, W]`.
        after: `[B, C, H, W]`.
        change: from before to after: (Δx, Δy) in pixels `[B, 2]`, or a matrix `[B, 3, 3]`: for (x, y, 1),
            where x and y go from −1 to 1 over the image, or of a turn in three dimensions.
    """

    before: Tensor
    after: Tensor
    change: Tensor


def random_shifts(images: Tensor, largest: int, generator: Generator) -> MovedPair:
    """Shift each image twice by whole pixels from −`largest` to `largest`, as in the paper."""
    first, second = (
        torch.randint(-largest, largest + 1, (len(images), 2), generator=generator).to(images.dtype)
        for _ in range(2)
    )
    return MovedPair(shift_images(images, first), shift_images(images, second), second - first)


def random_rotations(
    images: Tensor, largest_angle: float, largest_shift: float, generator: Generator
) -> MovedPair:
    """Rotate and shift each image twice.

    Args:
        images: `[B, C, H, W]`.
        largest_angle: in radians.
        largest_shift: as a fraction of half the image.
        generator: of the random numbers.
    """
    first, second = (
        rigid_matrices(2 * torch.rand(len(images), 3, generator=generator) - 1, largest_angle, largest_shift)
        for _ in range(2)
    )
    change = second @ torch.linalg.inv(first)
    return MovedPair(transform_images(images, first), transform_images(images, second), change)


def random_turns(views: Tensor, largest: int, generator: Generator) -> MovedPair:
    """Two views of each object, and the turn about its vertical axis between them.

    Args:
        views: `[B, A, C, H, W]` from A azimuths that are equally far apart, all around.
        largest: steps between azimuths, to either side.
        generator: of the random numbers.
    """
    count, azimuths = views.shape[:2]
    first = torch.randint(azimuths, (count,), generator=generator)
    steps = torch.randint(-largest, largest + 1, (count,), generator=generator)
    rows = torch.arange(count)
    before, after = views[rows, first], views[rows, (first + steps) % azimuths]
    return MovedPair(before, after, turn_matrices(2 * math.pi / azimuths * steps))


def turn_matrices(angle: Tensor) -> Tensor:
    """Rotations `[B, 3, 3]` by angles `[B]` in radians about the second axis, which is the vertical one.

    The camera looks down at a fixed angle. A fixed change of axes is left to the poses, which are learned.
    """
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    rows = [angle.cos(), zero, angle.sin(), zero, one, zero, -angle.sin(), zero, angle.cos()]
    return torch.stack(rows, dim=1).view(-1, 3, 3)


def shift_images(images: Tensor, shift: Tensor) -> Tensor:
    """Shift images by (Δx, Δy) pixels `[B, 2]`, to the right and down; new pixels at the border are 0.

    >>> image = torch.zeros(1, 1, 3, 3)
    >>> image[0, 0, 0, 0] = 1
    >>> shift_images(image, torch.tensor([[2.0, 1.0]]))[0, 0].round()
    tensor([[0., 0., 0.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    matrix = torch.eye(3, dtype=images.dtype).repeat(len(images), 1, 1)
    matrix[:, :2, 2] = 2 * shift / torch.tensor([images.shape[3], images.shape[2]], dtype=images.dtype)
    return transform_images(images, matrix)


def rigid_matrices(numbers: Tensor, largest_angle: float, largest_shift: float) -> Tensor:
    """Matrices `[B, 3, 3]` of a rotation and a shift, given by `numbers` `[B, 3]` in −1..1."""
    angle, (x, y) = largest_angle * numbers[:, 0], (largest_shift * numbers[:, 1:]).unbind(1)
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    rows = [angle.cos(), -angle.sin(), x, angle.sin(), angle.cos(), y, zero, zero, one]
    return torch.stack(rows, dim=1).view(-1, 3, 3)


def transform_images(images: Tensor, matrix: Tensor) -> Tensor:
    """Move each point (x, y, 1) of images to `matrix` `[B, 3, 3]` times itself, interpolated bilinearly."""
    # grid_sample needs the input point of each output point: the inverse.
    inverse = torch.linalg.inv(matrix)[:, :2]
    grid = F.affine_grid(inverse, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
