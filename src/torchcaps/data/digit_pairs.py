from __future__ import annotations

import os

import torch
from torch import Generator, Tensor

from torchcaps.data.augment import resize
from torchcaps.data.imageset import DATASETS, ImageSet
from torchcaps.data.options import check_choice, check_positive

SOURCES = ("mnist", "digits", "fashion_mnist")


def load_source(
    source: str, split: str, data_dir: str | os.PathLike[str] | None, size: int | None
) -> ImageSet:
    """Load the single-object set that others are made from, scaled to `size`."""
    check_choice("source", source, SOURCES)
    check_choice("split", split, ("train", "test"))
    single = DATASETS[source](split, data_dir=data_dir)
    if size is None:
        return single
    check_positive("size", size)
    return ImageSet(resize(single.images, size), single.labels, single.classes, single.metadata)


def choose_pairs(labels: Tensor, per_image: int, generator: Generator) -> Tensor:
    """Pair each image `per_image` times with a random one of another class: indices `[N · per_image, 2]`.

    >>> labels = torch.tensor([0, 0, 1, 2])
    >>> pairs = choose_pairs(labels, 2, torch.Generator().manual_seed(0))
    >>> pairs.shape, bool((labels[pairs[:, 0]] != labels[pairs[:, 1]]).all())
    (torch.Size([8, 2]), True)
    """
    check_positive("per_image", per_image)
    if len(labels.unique()) < 2:
        raise ValueError("pairs of different classes need at least two classes")
    first = torch.arange(len(labels)).repeat_interleave(per_image)
    second = torch.randint(len(labels), (len(first),), generator=generator)
    while len(same := (labels[first] == labels[second]).nonzero()[:, 0]):
        second[same] = torch.randint(len(labels), (len(same),), generator=generator)
    return torch.stack([first, second], dim=1)


def add_clipped(first: Tensor, second: Tensor) -> Tensor:
    """Add two uint8 images and clip at white.

    >>> add_clipped(torch.tensor([200], dtype=torch.uint8), torch.tensor([100], dtype=torch.uint8))
    tensor([255], dtype=torch.uint8)
    """
    return first + second.minimum(255 - first)
