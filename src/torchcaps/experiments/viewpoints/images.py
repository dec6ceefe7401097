"""The images of the viewpoints: validation toys to choose epochs by, and test toys that decide."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from torchcaps.data import load
from torchcaps.data.datasets.norb import select_views
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.viewpoints.networks import view_options


class Views(NamedTuple):
    """Images from the angles of training and from all others."""

    familiar: ImageSet
    novel: ImageSet


def load_views(data: str, viewpoint: str, toys: str, *, quick: bool, data_dir: str | None) -> Views:
    """Familiar and novel views of some toys.

    Args:
        data: `"toys"` or `"smallnorb"`.
        viewpoint: `"azimuth"` or `"elevation"`.
        toys: `"validation"`, half of the toys that are not in the training set; `"test"`, the others; or
            `"train"`, the toys of the training set with one lighting, of which networks have seen the
            familiar views.
        quick: as for `make_recipe`.
        data_dir: folder of the data sets, if not in the usual places.
    """
    options: dict[str, Any] = view_options(data, viewpoint, quick=quick)
    if toys == "train":
        if data == "toys":
            options["lightings"] = options["lightings"][:1]
        images = load(data, "train", data_dir=data_dir, **options)
        return Views(*(select_views(images, viewpoint, novel=novel) for novel in (False, True)))
    both = Views(
        *(
            load(data, f"test_{split}", viewpoint=viewpoint, data_dir=data_dir, **options)
            for split in ("familiar", "novel")
        )
    )
    return Views(*(half_of_toys(images, toys) for images in both))


def half_of_toys(images: ImageSet, toys: str) -> ImageSet:
    """The images of the first half of the toys (`"validation"`), or of the others (`"test"`).

    >>> pixels = torch.zeros(5, 1, 2, 2, dtype=torch.uint8)
    >>> five = ImageSet(pixels, torch.zeros(5).long(), ("a",), {"instance": torch.arange(5)})
    >>> [half_of_toys(five, toys).metadata["instance"].tolist() for toys in ("validation", "test")]
    [[0, 1], [2, 3, 4]]
    """
    instance = images.metadata["instance"]
    known = instance.unique()
    first = torch.isin(instance, known[: len(known) // 2])
    return images.select(first if toys == "validation" else ~first)


def sample(images: ImageSet, most: int) -> ImageSet:
    """A random sample, since the images of a set are in an order."""
    generator = torch.Generator().manual_seed(0)
    return images.select(torch.randperm(len(images), generator=generator)[:most])
