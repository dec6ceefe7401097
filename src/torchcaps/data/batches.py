from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from torchcaps._checks import check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess


class Batch(NamedTuple):
    """One step's worth: images float `[B, C, H, W]`, labels `[B]` or `[B, K]`, indices into the set `[B]`."""

    images: Tensor
    labels: Tensor
    indices: Tensor


class Batches:
    """Batches of an image set, the same ones for the same (seed, epoch, batch number) whatever came before.

    Training batches are shuffled and augmented, test batches come in order. No state is kept between
    epochs: a run that stopped after k batches goes on with `epoch(number, start=k)` and sees bitwise what
    it would have seen. With several processes, each gets a contiguous part of every batch, and an image is
    augmented the same way as in one process. Parts of a last, smaller batch may differ by one image or be
    empty; `drop_last` avoids that.

    >>> stripes = torch.zeros(10, 1, 8, 8, dtype=torch.uint8)
    >>> batches = Batches(ImageSet(stripes, torch.arange(10), tuple("abcdefghij")), 4, train=True, seed=1)
    >>> len(batches), [len(batch.images) for batch in batches.epoch(0)]
    (3, [4, 4, 2])
    >>> torch.equal(next(batches.epoch(5, start=2)).indices, list(batches.epoch(5))[2].indices)
    True
    """

    def __init__(
        self,
        imageset: ImageSet,
        batch_size: int,
        *,
        train: bool,
        preprocess: Preprocess | None = None,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | None = None,
    ) -> None:
        check_count("batch_size", batch_size)
        check_count("world_size", world_size)
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be 0 to {world_size - 1}, got {rank}")
        if batch_size % world_size:
            raise ValueError(f"batch_size {batch_size} cannot be split evenly among {world_size} processes")
        if not len(imageset):
            raise ValueError("the image set is empty")
        self.images = imageset.images.to(device)
        self.labels = imageset.labels.to(device)
        self.batch_size = batch_size
        self.is_train = train
        self.preprocess = preprocess or Preprocess()
        self.seed = seed
        self.drop_last = drop_last
        self.rank = rank
        self.world_size = world_size

    @property
    def num_images(self) -> int:
        """How many images an epoch has, over all processes."""
        return len(self.images)

    def __len__(self) -> int:
        """Count the batches of an epoch, the same for every rank."""
        count = len(self.images)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(0)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Iterate over the batches of an epoch, from batch `start` on."""
        order = self.order(number)
        for batch_number in range(start, len(self)):
            chosen = order[batch_number * self.batch_size : (batch_number + 1) * self.batch_size]
            begin = len(chosen) * self.rank // self.world_size
            end = len(chosen) * (self.rank + 1) // self.world_size
            indices = chosen[begin:end].to(self.images.device)
            images = self.images[indices]
            if self.is_train:
                # Drawn for the whole batch, so that a part gets the numbers it would have in one process.
                generator = torch.Generator().manual_seed(mixed(self.seed, number, batch_number))
                images = self.preprocess.train(
                    images, self.preprocess.draw(len(chosen), generator)[begin:end]
                )
            else:
                images = self.preprocess.test(images)
            yield Batch(images, self.labels[indices], indices)

    def order(self, epoch: int) -> Tensor:
        """Give the order of all images in an epoch: int64 `[N]` on the CPU."""
        if not self.is_train:
            return torch.arange(len(self.images))
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        return torch.randperm(len(self.images), generator=generator)


class StreamBatches:
    """`Batches` of a map-style data set whose images are loaded when they are needed.

    Items are `(image, label)`: image uint8 or float `[C, H, W]`, label a whole number or int64 `[K]`. Random
    numbers that the data set itself draws depend on (seed, epoch, index) alone.

    >>> items = [(torch.zeros(1, 8, 8), index % 2) for index in range(10)]
    >>> [len(batch.images) for batch in StreamBatches(items, 4, train=True).epoch(0, start=1)]
    [4, 2]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        train: bool,
        preprocess: Preprocess | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | None = None,
        num_workers: int = 0,
    ) -> None:
        check_count("batch_size", batch_size)
        check_count("num_workers", num_workers, minimum=0)
        if batch_size % world_size:
            raise ValueError(f"batch_size {batch_size} cannot be split evenly among {world_size} processes")
        if not len(dataset):
            raise ValueError("the data set is empty")
        self.dataset, self.batch_size, self.is_train = dataset, batch_size, train
        self.preprocess, self.seed = preprocess or Preprocess(), seed
        self.rank, self.world_size = rank, world_size
        self.device, self.num_workers = device, num_workers

    @property
    def num_images(self) -> int:
        """How many images an epoch has, over all processes."""
        return len(self.dataset)

    def __len__(self) -> int:
        """Count the batches of an epoch, the same for every rank."""
        return -(-self.num_images // self.batch_size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Iterate over the batches of an epoch, from batch `start` on; earlier ones are not loaded."""
        order = torch.arange(self.num_images)
        if self.is_train:
            order = torch.randperm(
                self.num_images, generator=torch.Generator().manual_seed(mixed(self.seed, number))
            )
        batches = list(order.split(self.batch_size))[start:]
        bounds = [[len(batch) * (self.rank + end) // self.world_size for end in (0, 1)] for batch in batches]
        parts = [batch[begin:end] for batch, (begin, end) in zip(batches, bounds)]
        loader = iter(
            DataLoader(
                SeededItems(self.dataset, self.seed, number),  # type: ignore[arg-type]
                batch_sampler=[part.tolist() for part in parts if len(part)],
                collate_fn=stack_items,
                num_workers=self.num_workers,
                generator=torch.Generator(),  # the default one is left as it is
            )
        )
        for place, (batch, indices, (begin, end)) in enumerate(zip(batches, parts, bounds)):
            if len(indices):
                images, labels = next(loader)
            else:  # shapes matter even of a part without images
                images, labels = (each[:0] for each in stack_items([self.dataset[0]]))
            images = images.to(self.device)
            if self.is_train:
                generator = torch.Generator().manual_seed(mixed(self.seed, number, start + place))
                images = self.preprocess.train(images, self.preprocess.draw(len(batch), generator)[begin:end])
            else:
                images = self.preprocess.test(images)
            yield Batch(images, labels.to(self.device), indices.to(images.device))


class SeededItems:
    """The items of a data set, each loaded with random numbers of its own."""

    def __init__(self, dataset: Any, seed: int, epoch: int) -> None:
        self.dataset, self.seed, self.epoch = dataset, seed, epoch

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        kept = random.getstate(), np.random.get_state()
        seed = mixed(self.seed, self.epoch, index)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                random.seed(seed)
                np.random.seed(seed % 2**32)
                return self.dataset[index]
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])


def stack_items(items: list[Any]) -> tuple[Tensor, Tensor]:
    """Images `[B, C, H, W]` and labels `[B]` or `[B, K]` of some items."""
    images, labels = zip(*items)
    return torch.stack(images), torch.stack([torch.as_tensor(label, dtype=torch.int64) for label in labels])


def make_batches(
    dataset: Any,
    batch_size: int,
    *,
    train: bool,
    preprocess: Preprocess | None = None,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    device: torch.device | str | None = None,
    num_workers: int = 0,
) -> Batches | StreamBatches:
    """`Batches` of an image set in memory, `StreamBatches` of any other data set."""
    common: dict[str, Any] = {"train": train, "preprocess": preprocess, "seed": seed, "device": device}
    common |= {"rank": rank, "world_size": world_size}
    if isinstance(dataset, ImageSet):
        return Batches(dataset, batch_size, **common)
    return StreamBatches(dataset, batch_size, num_workers=num_workers, **common)


def mixed(*numbers: int) -> int:
    """Mix whole numbers into one seed; neighboring ones give unrelated seeds.

    >>> mixed(0, 1) == mixed(0, 1), mixed(0, 1) == mixed(1, 0)
    (True, False)
    """
    digest = hashlib.blake2b(",".join(map(str, numbers)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
