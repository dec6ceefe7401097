"""Toys that are jittered and on cluttered ground, in the manner of the jittered-cluttered NORB set."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps.data.imageset import ImageSet
from torchcaps.data.worlds.toys.assembly import build_toy
from torchcaps.data.worlds.toys.cameras import stereo
from torchcaps.data.worlds.toys.raycast import cast_rays
from torchcaps.data.worlds.toys.rendering import SAMPLES
from torchcaps.data.worlds.toys.table import azimuth_degrees, elevation_degrees

SHAPES = 8
"""Gray shapes on the ground of one image."""
MAX_GRAY = 90.0
MAX_DISPARITY = 0.06
"""How far apart the two cameras see a shape, as a share of the image."""

MAX_ROTATION, MIN_SCALE = 5.0, 0.78
MAX_LUMINANCE, CONTRASTS = 20.0, (0.8, 1.3)
_CHUNK = 2000


def change_toys(images: ImageSet, split: str, *, jitter: int, clutter: bool, seed: int) -> ImageSet:
    """Jitter rendered toys, then put gray shapes on the ground around them.

    Jittering moves a toy by up to `jitter` pixels, rotates it by up to 5° in the image, scales it by 0.78 to
    1, and changes brightness by up to 20 gray levels and contrast by 0.8 to 1.3. Both images of a pair are
    changed in the same way.

    Args:
        images: toys with their views as metadata, one image or a stereo pair each.
        split: `"train"` or `"test"`, which are changed in different ways.
        jitter: pixels; 0 for none of these changes.
        clutter: whether to add shapes. They are never in front of the toy.
        seed: of all changes, and of the toys.

    Returns:
        The changed images. With jitter, their metadata has `shift_x`, `shift_y`, `luminance`, `contrast`,
        `scale` and `rotation` too.
    """
    generator = torch.Generator().manual_seed(2 * seed + (split == "test"))
    pixels, facts = [], []
    for part in torch.arange(len(images)).split(_CHUNK):
        some = images.select(part)
        values = draw_jitter(len(part), jitter, generator)
        changed = some.images.float()
        if jitter:
            changed = jittered(changed, values, 255.0)
        if clutter:
            cover = toy_coverage(some, seed)
            if jitter:
                cover = jittered(cover, values, 1.0, colors=False)
            shapes = draw_shapes(len(part), changed.shape[-1], generator)
            changed = changed + ((1 - cover) * shapes)[:, : changed.shape[1]]
        pixels.append(changed.round().clamp(0, 255).to(torch.uint8))
        facts.append(values)
    metadata = dict(images.metadata)
    if jitter:
        names = ("shift_x", "shift_y", "luminance", "contrast", "scale", "rotation")
        metadata |= dict(zip(names, torch.cat(facts).unbind(1)))
    return ImageSet(torch.cat(pixels), images.labels, images.classes, metadata)


def draw_jitter(count: int, pixels: int, generator: torch.Generator) -> Tensor:
    """Draw shift in x and y, luminance, contrast, scale and rotation of each image: `[N, 6]`."""
    numbers = torch.rand(count, 6, generator=generator)
    low, high = CONTRASTS
    return torch.stack(
        [
            pixels * (2 * numbers[:, 0] - 1),
            pixels * (2 * numbers[:, 1] - 1),
            MAX_LUMINANCE * (2 * numbers[:, 2] - 1),
            low + (high - low) * numbers[:, 3],
            MIN_SCALE + (1 - MIN_SCALE) * numbers[:, 4],
            MAX_ROTATION * (2 * numbers[:, 5] - 1),
        ],
        1,
    )


def jittered(images: Tensor, values: Tensor, white: float, *, colors: bool = True) -> Tensor:
    """Move, rotate and scale images `[N, C, S, S]` by `values` of `draw_jitter`; border pixels continue.

    Args:
        images: to be changed.
        values: `[N, 6]`.
        white: the largest value of a pixel; contrast is changed around the middle gray.
        colors: whether to change brightness and contrast too.
    """
    shift_x, shift_y, luminance, contrast, scale, rotation = values.unbind(1)
    angle = torch.deg2rad(rotation)
    cosine, sine = angle.cos() / scale, angle.sin() / scale
    side = images.shape[-1] / 2
    # The grid says where each new pixel comes from, so the matrix is the inverse of the change.
    x, y = shift_x / side, shift_y / side
    rows = [cosine, sine, -cosine * x - sine * y, -sine, cosine, sine * x - cosine * y]
    matrix = torch.stack(rows, 1).view(-1, 2, 3)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    moved = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    if not colors:
        return moved
    middle = white / 2
    return (moved - middle) * contrast.view(-1, 1, 1, 1) + middle + luminance.view(-1, 1, 1, 1)


def draw_shapes(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw differences of gray that look like boxes and ellipses on the ground, `[N, 2, size, size]`.

    The second camera sees each shape farther left, by an amount of its own.
    """
    numbers = torch.rand(SHAPES, count, 7, 1, 1, generator=generator)
    centers = (torch.arange(size) + 0.5) / size
    result = torch.zeros(count, 2, size, size)
    for shape in numbers:
        x, y, width, height, angle, gray, disparity = shape.unbind(1)
        cosine, sine = torch.cos(3.1416 * angle), torch.sin(3.1416 * angle)
        for eye in range(2):
            across, along = centers - x + eye * MAX_DISPARITY * disparity, centers[:, None] - y
            u = (cosine * across + sine * along) / (0.05 + 0.2 * width)
            v = (cosine * along - sine * across) / (0.05 + 0.2 * height)
            # Near shapes are ellipses, far ones boxes.
            extent = torch.where(disparity > 0.5, torch.hypot(u, v), torch.maximum(u.abs(), v.abs()))
            inside = (8 * (1 - extent)).clamp(0, 1)  # a soft edge
            result[:, eye] += inside * MAX_GRAY * (2 * gray - 1)
    return result


def toy_coverage(images: ImageSet, seed: int) -> Tensor:
    """The share of each pixel that the toy covers, `[N, 2, size, size]`; lamps make no difference to it.

    Args:
        images: toys with their views as metadata.
        seed: of the toys.
    """
    size = images.images.shape[-1]
    views = torch.stack(
        [images.labels, *(images.metadata[fact] for fact in ("instance", "elevation", "azimuth"))], 1
    )
    unique, place = torch.unique(views, dim=0, return_inverse=True)
    masks = []
    for category, instance, elevation, azimuth in unique.tolist():
        toy = build_toy(category, instance, seed=seed)
        cameras = stereo([azimuth_degrees(azimuth)], [elevation_degrees(elevation)], np.array(toy.center))
        hit = np.isfinite(cast_rays(toy.solids, cameras, size * SAMPLES).depth)
        masks.append(hit.reshape(2, size, SAMPLES, size, SAMPLES).mean((2, 4)))
    return torch.from_numpy(np.stack(masks)).float()[place]
