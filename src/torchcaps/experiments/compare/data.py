"""The images of each part: for training, for choosing the epoch, and for the tests."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from torchcaps.data import limit_images, load
from torchcaps.data.datasets.affine_mnist import transform_set
from torchcaps.data.datasets.pairs import overlay, side_by_side
from torchcaps.data.imageset import ImageSet
from torchcaps.data.transforms import resize
from torchcaps.experiments.compare.forms import PartSettings

# The same images for all networks and seeds: a seed changes the first weights and the order of the batches.
SEED = 0
# The complete set of toys is rendered once, at this size, and then scaled down.
RENDERED = 48


class PartData(NamedTuple):
    """The images of a part.

    Attributes:
        train: what networks are trained on.
        validation: what the epoch is chosen by.
        tests: test images by the name of what they measure.
    """

    train: ImageSet
    validation: ImageSet
    tests: dict[str, ImageSet]


def load_part(name: str, settings: PartSettings, data_dir: str | None = None) -> PartData:
    """Load or make the images of a part.

    Args:
        name: `"digits"`, `"overlap"` or `"views"`.
        settings: of the part.
        data_dir: folder of the data sets, if not in the usual places.

    Example:
        >>> images = load_part("overlap", PartSettings("digits", size=18, epochs=1, limit=100))
        >>> len(images.train), len(images.validation), images.train.image_size
        (90, 10, (18, 18))
    """
    return {"digits": load_digits, "overlap": load_overlap, "views": load_views}[name](settings, data_dir)


def load_digits(settings: PartSettings, data_dir: str | None) -> PartData:
    """Digits that are moved on a canvas, for tests also transformed, and two side by side."""
    train, validation, test = load_singles(settings, data_dir, 28)
    per_image, per_test = settings.per_image, settings.test_per_image
    moved = scaled(transform_set(test, per_test, SEED + 2, moved_only=True), settings.size)
    tests = {
        "accuracy": moved,
        "affine": scaled(transform_set(test, per_test, SEED + 3, moved_only=False), settings.size),
        "two_digits": side_by_side(moved, seed=SEED),
    }
    return PartData(
        scaled(transform_set(train, per_image, SEED, moved_only=True), settings.size),
        scaled(transform_set(validation, per_image, SEED + 1, moved_only=True), settings.size),
        tests,
    )


def load_overlap(settings: PartSettings, data_dir: str | None) -> PartData:
    """Two digits over each other, shifted as in MultiMNIST: ±4 pixels for digits of 28 on a canvas of 36."""
    shift = round(settings.size / 9)
    train, validation, test = load_singles(settings, data_dir, settings.size - 2 * shift)
    pairs = [
        overlay(single, count, SEED + number, max_shift=shift)
        for number, (single, count) in enumerate(
            [(train, settings.per_image), (validation, settings.per_image), (test, settings.test_per_image)]
        )
    ]
    return PartData(pairs[0], pairs[1], {"overlap": pairs[2]})


def load_views(settings: PartSettings, data_dir: str | None) -> PartData:
    """Toys from familiar azimuths; other toys from these and from all other azimuths for tests."""
    views: dict[str, Any] = {name: list(codes) for name, codes in settings.views}
    size = settings.size if views else RENDERED
    splits = {
        split: load(settings.source, split, viewpoint="azimuth", size=size, data_dir=data_dir, **views)
        for split in ("train", "test_familiar", "test_novel")
    }
    images = {
        split: scaled(some(each, settings.limit if split == "train" else settings.test_limit), settings.size)
        for split, each in splits.items()
    }
    train, validation = hold_out(images["train"], settings.validation)
    tests = {"familiar": images["test_familiar"], "novel": images["test_novel"]}
    return PartData(train, validation, tests)


def load_singles(
    settings: PartSettings, data_dir: str | None, size: int
) -> tuple[ImageSet, ImageSet, ImageSet]:
    """Single digits for training, validation and tests; no digit is in two of them."""
    singles = [load(settings.source, split, data_dir=data_dir) for split in ("train", "test")]
    train, validation = hold_out(some(singles[0], settings.limit), settings.validation)
    test = some(singles[1], settings.test_limit)
    return scaled(train, size), scaled(validation, size), scaled(test, size)


def some(images: ImageSet, limit: int | None) -> ImageSet:
    """At most `limit` images, balanced over the classes, in random order."""
    part = limit_images(images, limit, seed=SEED)
    return part.select(torch.randperm(len(part), generator=torch.Generator().manual_seed(SEED)))


def hold_out(images: ImageSet, share: float) -> tuple[ImageSet, ImageSet]:
    """The images without a share of them, and that share; the images must be in random order."""
    count = max(1, round(share * len(images)))
    return images.select(torch.arange(count, len(images))), images.select(torch.arange(count))


def scaled(images: ImageSet, size: int) -> ImageSet:
    """Images `[N, C, size, size]`."""
    if images.image_size == (size, size):
        return images
    return ImageSet(resize(images.images, size), images.labels, images.classes)
