from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from torchcaps._checks import check_count

# Any data set with len(), labels, classes, num_classes and select().
Images = TypeVar("Images", bound=Any)


def limit_images(
    images: Images, total: int | None = None, per_class: int | None = None, seed: int = 0
) -> Images:
    """Keep a smaller part of a data set, with all classes in equal numbers as far as possible.

    The part is drawn by `seed` and keeps the order of the set. A smaller part is always contained in a larger
    one of the same seed.

    Args:
        images: the data set.
        total: images to keep at most. Classes get equal numbers; a class with too few images gives all it
            has, and the others share the rest. Where each image holds several objects (labels `[N, K]`), or
            where `images.labels` is `None`, images are drawn without regard to their classes.
        per_class: images to keep of each class, instead of `total`.
        seed: of the draw.

    Returns:
        The part, or the set itself if neither is given.

    Raises:
        ValueError: both are given; a class has fewer than `per_class` images; or `per_class` is given for
            images that hold several objects.

    Example:
        >>> from torchcaps.data import load
        >>> limit_images(load("digits"), total=25).labels.bincount().tolist()
        [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]
        >>> limit_images(load("digits"), per_class=2).labels.bincount().tolist()
        [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """
    if total is None and per_class is None:
        return images
    if total is not None and per_class is not None:
        raise ValueError(f"give either limit or limit_per_class, got {total!r} and {per_class!r}")
    generator = torch.Generator().manual_seed(seed)
    one_class = images.labels is not None and images.labels.ndim == 1
    if total is not None:
        check_count("limit", total)
        if not one_class:
            order = torch.randperm(len(images), generator=generator)
            return images.select(order[:total].sort().values)
        counts = images.labels.bincount(minlength=images.num_classes)
        return images.select(draw(images.labels, share(counts.tolist(), total), generator))
    if per_class is not None:
        check_count("limit_per_class", per_class)
        if not one_class:
            raise ValueError(
                "limit_per_class needs a data set that knows the one class of each image; use limit instead"
            )
        for name, count in zip(images.classes, images.labels.bincount(minlength=images.num_classes).tolist()):
            if count < per_class:
                raise ValueError(
                    f"limit_per_class is {per_class}, but class {name!r} has only {count} images"
                )
        return images.select(draw(images.labels, [per_class] * images.num_classes, generator))
    return images


def share(counts: list[int], total: int) -> list[int]:
    """Share `total` among classes that have `counts` images: equally, as far as each class has them.

    >>> share([2, 9, 9], 11), share([2, 9, 9], 99)
    ([2, 5, 4], [2, 9, 9])
    """
    shares = [0] * len(counts)
    left = min(total, sum(counts))
    while left:
        unfinished = [number for number, count in enumerate(counts) if shares[number] < count]
        step = max(1, left // len(unfinished))
        for number in unfinished:
            more = min(step, counts[number] - shares[number], left)
            shares[number] += more
            left -= more
    return shares


def draw(labels: Tensor, shares: list[int], generator: torch.Generator) -> Tensor:
    """Draw so many images of each class: their indices, in order."""
    indices = []
    for label, count in enumerate(shares):
        same = (labels == label).nonzero()[:, 0]
        # The whole class is shuffled whatever the count, so that a larger part contains a smaller one.
        indices.append(same[torch.randperm(len(same), generator=generator)[:count]])
    return torch.cat(indices).sort().values
