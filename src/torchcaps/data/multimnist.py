from __future__ import annotations

import os

import torch
from torch import Tensor

from torchcaps.data.augment import window
from torchcaps.data.digit_pairs import add_clipped, choose_pairs, load_source
from torchcaps.data.imageset import DATASETS, ImageSet

SIZE = 28
MAX_SHIFT = 4


@DATASETS.register("multimnist")
def multimnist(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    source: str = "mnist",
    per_image: int = 1,
    seed: int = 0,
    size: int = SIZE,
) -> ImageSet:
    """Lay two digits of different classes over each other, as in MultiMNIST: images `[N, 1, 36, 36]`.

    Each digit is shifted by up to ±4 pixels in each direction on a 36×36 canvas; the two are added and
    clipped. Every image of the source appears as the first digit `per_image` times; partners and shifts are
    the same for the same `seed`. `source` is mnist, digits or fashion_mnist, scaled to 28×28, or to `size`
    with shifts and canvas in proportion: ±3 on 27×27 for 21. Labels are `[N, 2]`.

    Metadata: `parts` uint8 `[N, 2, 36, 36]`, each digit alone in the order of the labels, to compare
    reconstructions with; `source_index` `[N, 2]`.
    """
    single = load_source(source, split, data_dir, size)
    return overlay(single, per_image, seed, max_shift=round(MAX_SHIFT * size / SIZE))


def overlay(single: ImageSet, per_image: int = 1, seed: int = 0, *, max_shift: int = MAX_SHIFT) -> ImageSet:
    """Make overlapping pairs of any set of single grey objects; see `multimnist`."""
    generator = torch.Generator().manual_seed(seed)
    pairs = choose_pairs(single.labels, per_image, generator)
    offsets = torch.randint(2 * max_shift + 1, (len(pairs), 2, 2), generator=generator)
    first = place(single.images[pairs[:, 0]], offsets[:, 0], max_shift)
    second = place(single.images[pairs[:, 1]], offsets[:, 1], max_shift)
    parts = torch.cat([first, second], dim=1)
    return ImageSet(
        add_clipped(first, second),
        single.labels[pairs],
        single.classes,
        {"parts": parts, "source_index": pairs},
    )


def place(images: Tensor, offset: Tensor, max_shift: int = MAX_SHIFT) -> Tensor:
    """Put images `[N, C, H, W]` on a canvas larger by twice the shift, `offset` `[N, 2]` from its corner."""
    margin = 2 * max_shift
    height, width = images.shape[2] + margin, images.shape[3] + margin
    padded = torch.nn.functional.pad(images, [margin] * 4)
    return window(padded, margin - offset[:, 0], margin - offset[:, 1], height, width)
