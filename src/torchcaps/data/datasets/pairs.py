from __future__ import annotations

import os

import torch
from torch import Generator, Tensor

from torchcaps._checks import check_choice, check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import DATASETS, register_dataset
from torchcaps.data.transforms import resize, window

SOURCES = ("mnist", "digits", "fashion_mnist")


def load_source(
    source: str, split: str, data_dir: str | os.PathLike[str] | None, size: int | None
) -> ImageSet:
    """Load a set of single objects that others are made from, scaled to `size`."""
    check_choice("source", source, SOURCES)
    check_choice("split", split, ("train", "test"))
    single = DATASETS[source].loader(split, data_dir=data_dir)
    if size is None:
        return single
    check_count("size", size)
    return ImageSet(resize(single.images, size), single.labels, single.classes, single.metadata)


def choose_pairs(labels: Tensor, per_image: int, generator: Generator) -> Tensor:
    """Pair each image `per_image` times with a random one of another class: indices `[N · per_image, 2]`.

    >>> labels = torch.tensor([0, 0, 1, 2])
    >>> pairs = choose_pairs(labels, 2, torch.Generator().manual_seed(0))
    >>> pairs.shape, bool((labels[pairs[:, 0]] != labels[pairs[:, 1]]).all())
    (torch.Size([8, 2]), True)
    """
    check_count("per_image", per_image)
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


@register_dataset("two_digits", sources=SOURCES, random=True, drawable=False)
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

    Labels are in the order left, right. Metadata: `source_index` `[N, 2]`, the indices in the source.

    Args:
        split: `"train"` or `"test"`.
        data_dir: where to look for the files of the source.
        source: `"mnist"`, `"digits"` or `"fashion_mnist"`.
        size: scale the source's images to this side first.
        overlap: pixels by which the digits overlap; there they are added and clipped.
        per_image: how often each image of the source is the left one.
        seed: of the right ones.

    Example:
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


SIZE = 28
MAX_SHIFT = 4


@register_dataset("multimnist", sources=SOURCES, random=True)
def multimnist(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    source: str = "mnist",
    per_image: int = 1,
    seed: int = 0,
    size: int = SIZE,
) -> ImageSet:
    """Overlay two digits of different classes, as in MultiMNIST: images `[N, 1, 36, 36]`, labels `[N, 2]`.

    Each digit is shifted by up to ±4 pixels in each direction on a 36×36 canvas; the two are added and
    clipped.

    Metadata: `parts` uint8 `[N, 2, 36, 36]`, each digit alone in the order of the labels, to compare
    reconstructions with; `source_index` `[N, 2]`.

    Args:
        split: `"train"` or `"test"`.
        data_dir: where to look for the files of the source.
        source: `"mnist"`, `"digits"` or `"fashion_mnist"`.
        per_image: how often each image of the source is the first digit.
        seed: of the second digits and of the shifts.
        size: scale the source's images to this side first; shifts and canvas are in proportion, such as ±3 on
            27×27 for 21.
    """
    single = load_source(source, split, data_dir, size)
    return overlay(single, per_image, seed, max_shift=round(MAX_SHIFT * size / SIZE))


def overlay(single: ImageSet, per_image: int = 1, seed: int = 0, *, max_shift: int = MAX_SHIFT) -> ImageSet:
    """Make overlapping pairs of any set of single gray objects; see `multimnist`."""
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
    """Put images `[N, C, H, W]` on a canvas larger by twice the shift, at `offset` `[N, 2]`."""
    margin = 2 * max_shift
    height, width = images.shape[2] + margin, images.shape[3] + margin
    padded = torch.nn.functional.pad(images, [margin] * 4)
    return window(padded, margin - offset[:, 0], margin - offset[:, 1], height, width)
