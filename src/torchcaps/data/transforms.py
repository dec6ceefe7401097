"""Transformations of image batches: vectorized, on the images' device, random per image.

A random transformation is a plain function of the images and of uniform random numbers in [0, 1), one row per
image. The same numbers give the same result on any device and in any split of the batch, which makes
interrupted and data-parallel runs reproducible. Images are `[B, C, H, W]`, uint8 or float.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK = 2048


def to_float(images: Tensor) -> Tensor:
    """Scale uint8 images to float 0..1; float images pass unchanged.

    >>> to_float(torch.tensor([0, 51, 255], dtype=torch.uint8))
    tensor([0.0000, 0.2000, 1.0000])
    """
    return images if images.is_floating_point() else images.to(torch.float32).div_(255)


def standardize(images: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Give each image, all channels together, zero mean and unit variance; a constant one becomes zero."""
    images = to_float(images)
    centered = images - images.mean(dim=(1, 2, 3), keepdim=True)
    return centered / (centered.square().mean(dim=(1, 2, 3), keepdim=True) + epsilon**2).sqrt()


def resize(images: Tensor, size: int | tuple[int, int]) -> Tensor:
    """Scale to `size` (one side or height and width): by area average when smaller, bilinearly when larger.

    Keeps the type: uint8 images are rounded.

    >>> resize(torch.tensor([[[[0, 4], [8, 12]]]], dtype=torch.uint8), 1)
    tensor([[[[6]]]], dtype=torch.uint8)
    """
    height, width = (size, size) if isinstance(size, int) else size
    if images.shape[-2:] == (height, width):
        return images
    smaller = height <= images.shape[-2] and width <= images.shape[-1]

    def scale(part: Tensor) -> Tensor:
        if smaller:
            return F.interpolate(part, (height, width), mode="area")
        return F.interpolate(part, (height, width), mode="bilinear", align_corners=False)

    if images.is_floating_point():
        return scale(images)
    # In chunks, because a whole data set in float would need four times its memory.
    scaled = images.new_empty(*images.shape[:2], height, width)
    for begin in range(0, len(images), _CHUNK):
        part = scale(images[begin : begin + _CHUNK].to(torch.float32))
        scaled[begin : begin + _CHUNK] = part.round_().clamp_(0, 255).to(images.dtype)
    return scaled


def window(images: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Cut a `height`×`width` window out of each image, whose corner is at `top`, `left` (int64 `[B]`)."""
    device = images.device
    batch = torch.arange(len(images), device=device).view(-1, 1, 1, 1)
    channel = torch.arange(images.shape[1], device=device).view(1, -1, 1, 1)
    rows = (top.view(-1, 1) + torch.arange(height, device=device)).view(-1, 1, height, 1)
    columns = (left.view(-1, 1) + torch.arange(width, device=device)).view(-1, 1, 1, width)
    return images[batch, channel, rows, columns]


def rotate(images: Tensor, degrees: float, scale_by: float, numbers: Tensor) -> Tensor:
    """Rotate each image by up to ± `degrees` and scale it by 1 ± `scale_by`, around its center.

    Pixels are interpolated bilinearly, with zeros outside.

    Args:
        images: `[B, C, H, W]`.
        degrees: largest rotation.
        scale_by: largest change of scale.
        numbers: `[B, 2]` in [0, 1): 0 is the largest rotation clockwise and the smallest scale, 0.5 changes
            nothing.

    Returns:
        float `[B, C, H, W]`.

    Example:
        >>> image = torch.tensor([[[[0.0, 1.0], [0.0, 0.0]]]])
        >>> rotate(image, 90, 0, torch.tensor([[1.0, 0.5]])).round().flatten()
        tensor([1., 0., 0., 0.])
    """
    images = to_float(images)
    if not len(images):  # a process may have no part of the last batch, which affine_grid does not accept
        return images
    signed = (2 * numbers - 1).to(images.dtype)
    angle, scale = signed[:, 0] * math.radians(degrees), 1 + scale_by * signed[:, 1]
    # The grid holds where each pixel of the result is read, so this is the inverse map. Its coordinates run
    # from −1 to 1 along each side, hence the aspect ratio.
    cosine, sine, aspect = angle.cos() / scale, angle.sin() / scale, images.shape[2] / images.shape[3]
    zero = torch.zeros_like(angle)
    inverse = torch.stack(
        [torch.stack([cosine, -sine * aspect, zero], -1), torch.stack([sine / aspect, cosine, zero], -1)], 1
    )
    grid = F.affine_grid(inverse, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def translate(images: Tensor, max_pixels: int, numbers: Tensor) -> Tensor:
    """Shift each image by −`max_pixels` … `max_pixels` in both directions, as `numbers` `[B, 2]` choose.

    Zeros come in at the border.

    >>> translate(torch.tensor([[[[1, 2]]]]), 1, torch.tensor([[0.5, 0.0]])).flatten()
    tensor([0, 1])
    """
    offset = (numbers * (2 * max_pixels + 1)).long()
    padded = F.pad(images, [max_pixels] * 4)
    return window(padded, offset[:, 0], offset[:, 1], images.shape[2], images.shape[3])


def crop(images: Tensor, size: int, numbers: Tensor) -> Tensor:
    """Cut a `size`×`size` window out of each image at a place that `numbers` `[B, 2]` choose."""
    _check_crop(images, size)
    room = torch.tensor([images.shape[2] - size + 1, images.shape[3] - size + 1], device=images.device)
    corner = (numbers * room).long()
    return window(images, corner[:, 0], corner[:, 1], size, size)


def center_crop(images: Tensor, size: int) -> Tensor:
    """Cut the `size`×`size` center out of each image.

    >>> center_crop(torch.arange(16).view(1, 1, 4, 4), 2).flatten()
    tensor([ 5,  6,  9, 10])
    """
    _check_crop(images, size)
    top, left = (images.shape[2] - size) // 2, (images.shape[3] - size) // 2
    return images[:, :, top : top + size, left : left + size]


def grid_crops(images: Tensor, size: int, per_side: int = 3) -> Tensor:
    """Cut `per_side`² windows on an even grid out of each image: `[B, per_side², C, size, size]`.

    >>> grid_crops(torch.zeros(2, 1, 8, 8), 4, per_side=3).shape
    torch.Size([2, 9, 1, 4, 4])
    """
    _check_crop(images, size)
    if per_side < 1:
        raise ValueError(f"per_side must be at least 1, got {per_side}")
    if per_side == 1:
        return center_crop(images, size).unsqueeze(1)
    tops, lefts = (
        [round(place * (side - size) / (per_side - 1)) for place in range(per_side)]
        for side in images.shape[2:]
    )
    return torch.stack(
        [images[:, :, top : top + size, left : left + size] for top in tops for left in lefts], dim=1
    )


def adjust_brightness_contrast(images: Tensor, brightness: float, contrast: float, numbers: Tensor) -> Tensor:
    """Scale each image around its mean by 1 ± `contrast` and add ± `brightness`.

    `numbers` `[B, 2]` choose how much. The result is not clipped.
    """
    images = to_float(images)
    signed = (2 * numbers - 1).to(images.dtype).view(-1, 2, 1, 1, 1)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return (images - mean) * (1 + contrast * signed[:, 1]) + (mean + brightness * signed[:, 0])


def flip(images: Tensor, numbers: Tensor) -> Tensor:
    """Swap left and right in the images whose number, of `numbers` `[B]`, is below one half.

    >>> flip(torch.tensor([[[[1, 2]]], [[[1, 2]]]]), torch.tensor([0.2, 0.7])).flatten(1)
    tensor([[2, 1],
            [1, 2]])
    """
    return torch.where((numbers < 0.5).view(-1, 1, 1, 1), images.flip(-1), images)


def _check_crop(images: Tensor, size: int) -> None:
    if not 1 <= size <= min(images.shape[2:]):
        raise ValueError(
            f"size must be 1 to {min(images.shape[2:])} for {list(images.shape)} images, got {size}"
        )
