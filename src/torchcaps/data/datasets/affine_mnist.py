from __future__ import annotations

import math
import os

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from torchcaps._checks import check_choice, check_count
from torchcaps.data.datasets.pairs import load_source
from torchcaps.data.formats.affnist import read_affnist
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset

CANVAS = 40
MAX_ROTATION = math.radians(20)
MAX_SHEAR = 0.2
SCALES = (0.8, 1.2)
MAX_SHIFT = 8.0
_CHUNK = 1000


@register_dataset("affine_mnist", sources=("mnist", "digits", "fashion_mnist"), random=True)
def affine_mnist(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    source: str = "mnist",
    per_image: int = 1,
    seed: int = 0,
    affnist: str | os.PathLike[str] | None = None,
) -> ImageSet:
    """Load digits under affine transformations on a 40×40 canvas, after affNIST: images `[N, 1, 40, 40]`.

    Digits of the train split are only translated: by whole pixels, anywhere on the canvas. Each digit of the
    test split is rotated by up to ±20°, sheared by up to ±0.2, scaled by 0.8 … 1.2 in height and in width
    independently, and translated by up to ±8 pixels as far as all of its ink stays on the canvas.

    Metadata, float `[N]`: `rotation` (radians), `shear`, `scale_x`, `scale_y`, `shift_x`, `shift_y`
    (pixels); none with `affnist`.

    Args:
        split: `"train"` or `"test"`.
        data_dir: where to look for the files of the source.
        source: `"mnist"`, `"digits"` or `"fashion_mnist"`, scaled to 28×28.
        per_image: versions of each image of the source.
        seed: of the transformations.
        affnist: a published affNIST file or a folder of them, to be read instead.
    """
    check_choice("split", split, ("train", "test"))
    if affnist is not None:
        return read_affnist(affnist)
    single = load_source(source, split, data_dir, 28)
    return transform_set(single, per_image, seed, moved_only=split == "train")


def transform_set(single: ImageSet, per_image: int, seed: int, *, moved_only: bool) -> ImageSet:
    """Transform each image of a set `per_image` times; see `affine_mnist`."""
    check_count("per_image", per_image)
    generator = torch.Generator().manual_seed(seed)
    indices = torch.arange(len(single)).repeat_interleave(per_image)
    transformed, facts = [], []
    for part in indices.split(_CHUNK):
        images = single.images[part]
        values = (
            draw_translations(images, generator) if moved_only else draw_transformations(images, generator)
        )
        transformed.append(transform(images, values))
        facts.append(values)
    names = ("rotation", "shear", "scale_x", "scale_y", "shift_x", "shift_y")
    metadata = dict(zip(names, torch.cat(facts).unbind(1)))
    return ImageSet(torch.cat(transformed), single.labels[indices], single.classes, metadata)


def draw_translations(images: Tensor, generator: Generator) -> Tensor:
    """Draw a random translation of each image on the canvas: `[N, 6]`, see `draw_transformations`."""
    room = torch.tensor([CANVAS - images.shape[3], CANVAS - images.shape[2]])
    shifts = (torch.rand(len(images), 2, generator=generator) * (room + 1)).floor() - room / 2
    still = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(len(images), 4)
    return torch.cat([still, shifts], dim=1)


def draw_transformations(images: Tensor, generator: Generator) -> Tensor:
    """Draw rotation, shear, scale in x and y, shift in x and y for each image: `[N, 6]`."""
    numbers = torch.rand(len(images), 6, generator=generator)
    rotation, shear = MAX_ROTATION * (2 * numbers[:, 0] - 1), MAX_SHEAR * (2 * numbers[:, 1] - 1)
    scales = SCALES[0] + (SCALES[1] - SCALES[0]) * numbers[:, 2:4]
    values = torch.cat([rotation[:, None], shear[:, None], scales, torch.zeros(len(images), 2)], dim=1)
    lowest, highest = ink_extent(images, matrices(values))
    # Centers of inked pixels stay half a pixel inside the centers of the outermost ones of the canvas.
    low = (1 - CANVAS / 2 - lowest).clamp(min=-MAX_SHIFT)
    high = (CANVAS / 2 - 1 - highest).clamp(max=MAX_SHIFT)
    middle = (low + high) / 2
    values[:, 4:] = torch.where(low <= high, low + (high - low) * numbers[:, 4:], middle)
    return values


def matrices(values: Tensor) -> Tensor:
    """Rotation · shear · scaling as matrices `[N, 2, 2]` that act on (x, y) from the image's center."""
    rotation, shear, scale_x, scale_y = values[:, :4].unbind(1)
    cosine, sine = rotation.cos(), rotation.sin()
    first = [cosine * scale_x, (cosine * shear - sine) * scale_y]
    second = [sine * scale_x, (sine * shear + cosine) * scale_y]
    return torch.stack([*first, *second], dim=1).view(-1, 2, 2)


def invert(matrix: Tensor) -> Tensor:
    """Invert matrices `[N, 2, 2]`, in closed form because a general solver is slow on many small ones."""
    (a, b), (c, d) = (row.unbind(1) for row in matrix.unbind(1))
    swapped = torch.stack([d, -b, -c, a], dim=1).view(-1, 2, 2)
    return swapped / (a * d - b * c).view(-1, 1, 1)


def apply(matrix: Tensor, points: Tensor) -> Tensor:
    """Multiply points `[2, M]` or `[N, 2, M]` by matrices `[N, 2, 2]`: `[N, 2, M]`."""
    return matrix[:, :, :1] * points[..., None, 0, :] + matrix[:, :, 1:] * points[..., None, 1, :]


def ink_extent(images: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and largest (x, y) of each image's ink after `matrix`: two `[N, 2]`."""
    height, width = images.shape[2:]
    y, x = torch.meshgrid(
        torch.arange(height) - (height - 1) / 2, torch.arange(width) - (width - 1) / 2, indexing="ij"
    )
    moved = apply(matrix, torch.stack([x.flatten(), y.flatten()]))
    blank = (images.amax(dim=1).flatten(1) == 0)[:, None]
    lowest = moved.masked_fill(blank, math.inf).amin(dim=2)
    highest = moved.masked_fill(blank, -math.inf).amax(dim=2)
    return lowest.nan_to_num(posinf=0), highest.nan_to_num(neginf=0)


def transform(images: Tensor, values: Tensor) -> Tensor:
    """Draw uint8 images `[N, C, H, W]` on the 40×40 canvas, transformed by `values` `[N, 6]`, bilinearly."""
    height, width = images.shape[2:]
    centers = torch.arange(CANVAS) - (CANVAS - 1) / 2
    y, x = torch.meshgrid(centers, centers, indexing="ij")
    canvas = torch.stack([x.flatten(), y.flatten()]) - values[:, 4:, None]
    source = apply(invert(matrices(values)), canvas)
    grid = (2 * source / torch.tensor([[width], [height]])).transpose(1, 2).reshape(-1, CANVAS, CANVAS, 2)
    drawn = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return drawn.round_().clamp_(0, 255).to(torch.uint8)
