from __future__ import annotations

import os

import torch

from torchcaps.data.digit_pairs import add_clipped, choose_pairs, load_source
from torchcaps.data.imageset import DATASETS, ImageSet


@DATASETS.register("two_digits")
def two_digits(
    split: str = "test",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    source: str = "mnist",
    size: int | None = None,
    overlap: int = 0,
    per_image: int = 1,
    seed: int = 0,
) -> ImageSet:
    """Put two digits of different classes side by side: images `[N, 1, H, 2W − overlap]`, labels `[N, 2]`.

    The labels are in the order left, right. Every image of the source is the left one `per_image` times;
    the right one is random, the same for the same `seed`. `source` is mnist, digits or fashion_mnist,
    scaled to `size` first. Where they overlap, by `overlap` pixels, they are added and clipped.

    Metadata: `source_index` `[N, 2]`, which images of the source these are.

    >>> pairs = two_digits("test", source="digits", size=16, overlap=4)
    >>> pairs.images.shape, pairs.labels.shape
    (torch.Size([355, 1, 16, 28]), torch.Size([355, 2]))
    """
    return side_by_side(load_source(source, split, data_dir, size), overlap, per_image, seed)


def side_by_side(single: ImageSet, overlap: int = 0, per_image: int = 1, seed: int = 0) -> ImageSet:
    """Make pairs of any set of single objects; see `two_digits`."""
    height, width = single.image_size
    if not isinstance(overlap, int) or not 0 <= overlap <= width:
        raise ValueError(f"overlap must be 0 to {width} pixels, got {overlap!r}")
    pairs = choose_pairs(single.labels, per_image, torch.Generator().manual_seed(seed))
    canvas = single.images.new_zeros(len(pairs), single.in_channels, height, 2 * width - overlap)
    canvas[..., :width] = single.images[pairs[:, 0]]
    right = canvas[..., width - overlap :]
    right.copy_(add_clipped(right, single.images[pairs[:, 1]]))
    return ImageSet(canvas, single.labels[pairs], single.classes, {"source_index": pairs})
