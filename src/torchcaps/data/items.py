"""Reading (image, label) pairs from any map-style data set, checked and stacked: the work of one worker."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from torchcaps._checks import WHOLE
from torchcaps.data.imagefiles import ImageFileSet
from torchcaps.errors import DataError

Key = tuple[int, int]
"""Seed and index of an item."""


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
                    images.append(to_image(image, index))
                    labels.append(to_label(label, index))
            indices = [index for _, index in keys]
            return stack("image", images, indices), stack("label", labels, indices)
        except DataError as fault:
            return fault


def split_item(item: object, index: int) -> tuple[object, object]:
    """Split an item into image and label."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        size = f" of length {len(item)}" if isinstance(item, (tuple, list)) else ""
        raise DataError(
            f"item {index}: the data set must give pairs (image, label), got {type(item).__name__}{size}"
        )
    return item[0], item[1]


def to_image(value: object, index: int) -> Tensor:
    """Convert an image to a tensor `[C, H, W]`, uint8 or float32.

    Args:
        value: a tensor `[C, H, W]`, a PIL image, or an array `[H, W]` or `[H, W, C]`: uint8 or finite floats.
        index: of the item, for an error.

    Example:
        >>> to_image(np.zeros((8, 8, 3), dtype=np.uint8), 0).shape
        torch.Size([3, 8, 8])
        >>> to_image("cat.png", 7)
        Traceback (most recent call last):
        torchcaps.errors.DataError: item 7: an image must be a tensor, a PIL image or an array, got str
    """
    if hasattr(value, "getbands"):  # a PIL image
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        if value.ndim not in (2, 3):
            raise DataError(f"item {index}: an array must be [H, W] or [H, W, C], got {list(value.shape)}")
        array = torch.tensor(np.ascontiguousarray(value))
        value = array.unsqueeze(0) if array.ndim == 2 else array.permute(2, 0, 1)
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise DataError(f"item {index}: an image must be a tensor, a PIL image or an array, got {kind}")
    if value.ndim != 3:
        raise DataError(f"item {index}: an image must be [C, H, W], got {list(value.shape)}")
    if value.dtype == torch.uint8:
        return value.contiguous()
    if not value.is_floating_point():
        raise DataError(f"item {index}: pixels must be uint8 (0 to 255) or float, got {value.dtype}")
    if not value.isfinite().all():
        raise DataError(f"item {index}: a pixel is not a finite number")
    return value.float().contiguous()


def to_label(value: Any, index: int) -> Tensor:
    """Convert a label to int64 `[]`, or `[K]` where an image holds K objects.

    >>> to_label(3, 0), to_label([1, 2], 0)
    (tensor(3), tensor([1, 2]))
    """
    try:
        label = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        label = None
    if label is None or label.dtype not in (*WHOLE, torch.bool) or label.ndim > 1 or not label.numel():
        raise DataError(f"item {index}: a label must be a whole number, or K of them, got {value!r}")
    return label.long()


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
