"""Reading (image, label) pairs from any map-style data set, checked and stacked: the work of one worker."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from torchcaps.data.imagefiles import ImageFileSet
from torchcaps.errors import DataError

Key = tuple[int, int]
"""Seed and index of an item."""

IMAGE = "a tensor [C, H, W] of uint8, or of floats in 0..1"


class ItemReader(Dataset[Any]):
    """Reads several items of a data set at once, in a `DataLoader` and its worker processes.

    Args:
        dataset: gives (image, label) pairs by index. `torch`, `numpy` and `random` are seeded before each
            item, so that a data set that augments its images gives the same ones with any number of workers.
    """

    def __init__(self, dataset: Dataset[Any] | Sequence[Any]) -> None:
        self.dataset = dataset
        self.may_be_random = not isinstance(dataset, ImageFileSet)  # seeding costs a tenth of the decoding

    def __getitems__(self, keys: Sequence[Key]) -> tuple[Tensor, Tensor] | DataError:
        """Images `[B, C, H, W]` and labels `[B]` or `[B, K]`.

        A fault in the data is returned rather than raised: what a worker raises arrives in the main process
        inside the text of another error.
        """
        images, labels = [], []
        try:
            with preserved_random_state():
                for seed, index in keys:
                    if self.may_be_random:
                        seed_random_state(seed)
                    image, label = split_item(self.dataset[index], index)
                    images.append(check_image(image, index))
                    labels.append(check_label(label, index))
            indices = [index for _, index in keys]
            return stack("image", images, indices), stack("label", labels, indices)
        except DataError as fault:
            return fault


def split_item(item: object, index: int) -> tuple[object, object]:
    """Split an item into image and label."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        size = f" of length {len(item)}" if isinstance(item, (tuple, list)) else ""
        raise DataError(f"item {index} must be (image, label), got {type(item).__name__}{size}")
    return item[0], item[1]


def check_image(image: object, index: int) -> Tensor:
    """Check one image, and convert floats to float32.

    >>> check_image(torch.full((1, 8, 8), 255.0), 7)
    Traceback (most recent call last):
    torchcaps.errors.DataError: image 7 must have float values in 0..1, got 255.0 to 255.0; divide them by 255
    """
    if not isinstance(image, Tensor):
        raise DataError(f"image {index} must be {IMAGE}, got {type(image).__name__}")
    if image.ndim != 3 or not (image.dtype == torch.uint8 or image.is_floating_point()):
        raise DataError(f"image {index} must be {IMAGE}, got {image.dtype} {list(image.shape)}")
    if image.dtype == torch.uint8 or not image.numel():
        return image
    low, high = float(image.min()), float(image.max())
    if not 0 <= low <= high <= 1:
        advice = "; divide them by 255" if low >= 0 and 1 < high <= 255 else ""
        raise DataError(f"image {index} must have float values in 0..1, got {low} to {high}{advice}")
    return image.float()


def check_label(label: Any, index: int) -> Tensor:
    """Check one label, and convert it to int64 `[]` or `[K]`."""
    if isinstance(label, Tensor) and label.ndim == 1 and not label.is_floating_point():
        return label.long()
    try:
        return torch.tensor(operator.index(label))
    except (TypeError, ValueError):
        got = f"{label.dtype} {list(label.shape)}" if isinstance(label, Tensor) else repr(label)
        raise DataError(
            f"label {index} must be a class number, or a tensor [K] of class numbers, got {got}"
        ) from None


def stack(name: str, rows: Sequence[Tensor], indices: Sequence[int]) -> Tensor:
    """Stack the images or labels of a batch, which must agree in shape and type."""
    first = rows[0]
    for row, index in zip(rows, indices):
        if row.shape != first.shape or row.dtype != first.dtype:
            raise DataError(
                f"{name} {index} is {row.dtype} {list(row.shape)}, but {name} {indices[0]} is {first.dtype} "
                f"{list(first.shape)}; all must have one shape and one type"
            )
    return default_collate(list(rows))  # straight into shared memory, if this is a worker


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restore the random states of `torch`, `numpy` and `random` when the block ends."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def seed_random_state(seed: int) -> None:
    """Seed the CPU generator of `torch`, `numpy` and `random`."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
