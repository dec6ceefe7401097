from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from torchcaps._checks import check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.items import ItemReader, Key
from torchcaps.data.preprocess import Preprocess
from torchcaps.errors import DataError, RunError


class Batch(NamedTuple):
    """One batch: images float `[B, C, H, W]`, labels `[B]` or `[B, K]`, indices into the data set `[B]`."""

    images: Tensor
    labels: Tensor
    indices: Tensor


class Part(NamedTuple):
    """What one process has to do for one batch.

    Attributes:
        number: of the batch in its epoch.
        indices: of this process's images, int64 `[end - begin]` on the CPU.
        begin: where they start in the batch.
        end: where they end in the batch.
        total: images in the whole batch.
    """

    number: int
    indices: Tensor
    begin: int
    end: int
    total: int


class BatchOrder:
    """Which images are in which batch: a function of (seed, epoch, batch number) and of nothing else.

    No state is kept between epochs: a run that stopped after k batches continues with
    `epoch(number, start=k)` and gets bitwise the same batches. With several processes, each gets a contiguous
    part of every batch. Parts of a last, smaller batch may differ by one image or be empty.
    """

    def __init__(
        self,
        num_images: int,
        batch_size: int,
        *,
        train: bool,
        preprocess: Preprocess | None,
        seed: int,
        rank: int,
        world_size: int,
    ) -> None:
        check_count("batch_size", batch_size)
        check_count("world_size", world_size)
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be 0 to {world_size - 1}, got {rank}")
        if batch_size % world_size:
            raise ValueError(f"batch_size {batch_size} cannot be split evenly among {world_size} processes")
        if not num_images:
            raise ValueError("the data set is empty")
        self.num_images = num_images
        self.batch_size = batch_size
        self.is_train = train
        self.preprocess = preprocess or Preprocess()
        self.seed = seed
        self.rank = rank
        self.world_size = world_size

    def __len__(self) -> int:
        """Count the batches of an epoch, the same for every rank."""
        return -(-self.num_images // self.batch_size)

    def order(self, epoch: int) -> Tensor:
        """The order of all images in an epoch: int64 `[N]` on the CPU; shuffled in training."""
        if not self.is_train:
            return torch.arange(self.num_images)
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        return torch.randperm(self.num_images, generator=generator)

    def parts(self, epoch: int, start: int) -> Iterator[Part]:
        """This process's part of every batch of an epoch, from batch `start` on."""
        order = self.order(epoch)
        for number in range(start, len(self)):
            indices = order[number * self.batch_size : (number + 1) * self.batch_size]
            begin = len(indices) * self.rank // self.world_size
            end = len(indices) * (self.rank + 1) // self.world_size
            yield Part(number, indices[begin:end], begin, end, len(indices))

    def prepare(self, images: Tensor, epoch: int, part: Part) -> Tensor:
        """Preprocess one part's images `[B, C, H, W]`, and augment them in training."""
        if not self.is_train:
            return self.preprocess.test(images)
        # Drawn for the whole batch, so that an image gets the same numbers with any number of processes.
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch, part.number))
        numbers = self.preprocess.draw(part.total, generator)[part.begin : part.end]
        return self.preprocess.train(images, numbers)


class Batches(BatchOrder):
    """Batches of a data set in memory: shuffled and augmented in training, in order in evaluation.

    The batches of an epoch depend on the seed and the epoch number only; see `BatchOrder`.

    Args:
        imageset: the data set, which is moved to `device` as a whole.
        batch_size: images per batch, of all processes together.
        train: whether to shuffle and augment.
        preprocess: how images are prepared and augmented; by default they are scaled to 0..1.
        seed: of the order and of the augmentation.
        rank: number of this process.
        world_size: how many processes share each batch.
        device: where the batches are wanted.

    Example:
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
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            len(imageset),
            batch_size,
            train=train,
            preprocess=preprocess,
            seed=seed,
            rank=rank,
            world_size=world_size,
        )
        self.images = imageset.images.to(device)
        self.labels = imageset.labels.to(device)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Iterate over the batches of an epoch, from batch `start` on."""
        for part in self.parts(number, start):
            indices = part.indices.to(self.images.device)
            images = self.prepare(self.images[indices], number, part)
            yield Batch(images, self.labels[indices], indices)


class StreamBatches(BatchOrder):
    """Batches of any map-style data set, read by worker processes a few batches ahead.

    Memory holds only the batches in use, so that the data set can be larger than memory. The batches are
    bitwise those of `Batches` for the same images, with any number of workers and processes. Random numbers
    that the data set itself takes from `torch`, `numpy` or `random` are seeded by (seed, epoch, index).

    The workers start with the first epoch and stay for the following ones; they end with this object, or with
    `close()`. One epoch can be iterated at a time.

    Args:
        dataset: gives (image, label) pairs; an image is uint8, or float with values in 0..1, `[C, H, W]`, all
            of one shape and type; a label is a class number, or `[K]` of them.
        batch_size: images per batch, of all processes together.
        train: whether to shuffle and augment.
        preprocess: how images are prepared and augmented; by default they are scaled to 0..1.
        seed: of the order and of the augmentation.
        rank: number of this process.
        world_size: how many processes share each batch.
        device: where the batches are wanted.
        num_workers: processes that read the images; with 0 they are read in this process.

    Example:
        >>> dots = [(torch.full((1, 8, 8), number / 10), number) for number in range(10)]
        >>> [batch.labels.tolist() for batch in StreamBatches(dots, 4, train=False).epoch(0)]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        dataset: Dataset[Any] | Sequence[Any],
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
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise ValueError(
                f"the data set must have a length and be read by index, got {type(dataset).__name__}; "
                "use a map-style torch.utils.data.Dataset with __len__ and __getitem__"
            )
        super().__init__(
            len(dataset),
            batch_size,
            train=train,
            preprocess=preprocess,
            seed=seed,
            rank=rank,
            world_size=world_size,
        )
        self.device = torch.device("cpu" if device is None else device)
        self.num_workers = check_count("num_workers", num_workers, 0)
        self._dataset = dataset
        self._sampler = _Sampler()
        self._loader: DataLoader[Any] | None = None
        self._results: Iterator[tuple[Tensor, Tensor] | DataError] | None = None

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Iterate over the batches of an epoch, from batch `start` on.

        Raises:
            DataError: an image could not be read, or is not what it should be; the message names it.
            RunError: a worker process ended.
        """
        keys = self._sampler.keys = self._keys(number, start)
        if self._loader is None:
            self._loader = self._new_loader()
        self._results = iter(self._loader)
        for part in self.parts(number, start):
            if self._sampler.keys is not keys:
                raise RuntimeError(
                    "this epoch has ended, because another one was started or close() was called"
                )
            images, labels = self._next_result()
            count = len(part.indices)
            images, labels = images[:count].to(self.device), labels[:count].to(self.device)
            yield Batch(self.prepare(images, number, part), labels, part.indices.to(self.device))

    def close(self) -> None:
        """End the worker processes; another epoch starts new ones."""
        # The iterator would end them when it is deleted, but an error's traceback may keep it alive.
        shutdown = getattr(self._results, "_shutdown_workers", None)
        self._sampler.keys = iter(())
        self._loader = self._results = None
        if shutdown is not None:
            shutdown()

    def _keys(self, epoch: int, start: int) -> Iterator[list[Key]]:
        for part in self.parts(epoch, start):
            # A process without a part of the last batch still needs the shape of an image.
            indices = part.indices.tolist() or [0]
            yield [(mixed(self.seed, epoch, index), index) for index in indices]

    def _new_loader(self) -> DataLoader[Any]:
        return DataLoader(
            ItemReader(self._dataset),
            batch_sampler=self._sampler,
            collate_fn=_unchanged,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator(),  # or starting the workers would change torch's random state
        )

    def _next_result(self) -> tuple[Tensor, Tensor]:
        assert self._results is not None
        try:
            result = next(self._results)
        except Exception as error:
            self.close()
            if not _tells_of_dead_worker(error):
                raise
            raise RunError(
                f"a process that reads the data ended ({str(error).strip(' .')}); if memory was short, "
                "use fewer workers (num_workers) or smaller images"
            ) from error
        if isinstance(result, DataError):
            self.close()
            raise result
        return result


def _tells_of_dead_worker(error: Exception) -> bool:
    """Whether an error of a `DataLoader` is about its worker processes rather than about the data set."""
    message = str(error)
    if isinstance(error, RuntimeError):
        return message.startswith("DataLoader worker (pid")
    # The connection breaks off if the worker ended while it sent a batch. An error that the data set raised
    # in a worker starts with "Caught".
    broken = isinstance(error, (ConnectionError, EOFError, FileNotFoundError))
    return broken and not message.startswith("Caught")


class _Sampler:
    """The batch sampler of a `DataLoader`, whose keys can be replaced for every epoch."""

    def __init__(self) -> None:
        self.keys: Iterator[list[Key]] = iter(())

    def __iter__(self) -> Iterator[list[Key]]:
        return self.keys


def _unchanged(result: Any) -> Any:
    return result  # `ItemReader` has stacked the items already


def make_batches(
    dataset: ImageSet | Dataset[Any] | Sequence[Any],
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
    """Batches of any map-style data set: `Batches` of an `ImageSet`, `StreamBatches` of all others.

    The arguments are those of `StreamBatches`; a data set in memory ignores `num_workers`.

    Example:
        >>> from torchcaps.data import load
        >>> type(make_batches(load("digits"), 32, train=True)).__name__
        'Batches'
    """
    check_count("num_workers", num_workers, 0)
    options: dict[str, Any] = {
        "train": train,
        "preprocess": preprocess,
        "seed": seed,
        "rank": rank,
        "world_size": world_size,
        "device": device,
    }
    if isinstance(dataset, ImageSet):
        return Batches(dataset, batch_size, **options)
    return StreamBatches(dataset, batch_size, num_workers=num_workers, **options)


def mixed(*numbers: int) -> int:
    """Mix whole numbers into one seed; neighboring numbers give unrelated seeds.

    >>> mixed(0, 1) == mixed(0, 1), mixed(0, 1) == mixed(1, 0)
    (True, False)
    """
    digest = hashlib.blake2b(",".join(map(str, numbers)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
