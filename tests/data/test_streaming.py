from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps.data import Batches, ImageFileSet, ImageSet, Preprocess, StreamBatches, load, make_batches
from torchcaps.data.datasets import folder as folder_module
from torchcaps.errors import DataError, RunError

PIPELINE = Preprocess(translate=2, crop=12, brightness=0.2, contrast=0.2, rotate=10, flip=True)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    numbers = np.random.default_rng(0)
    for name, count in (("cat", 20), ("dog", 17)):
        (root / name).mkdir()
        for index in range(count):
            noise = numbers.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(noise).save(root / name / f"{index:02}.png")
    return root


def assert_same(first: list, second: list) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second):
        for a, b in zip(one, other):
            assert a.dtype == b.dtype
            assert torch.equal(a, b)


def noise_set(count: int = 29, labels: tuple[int, ...] = ()) -> ImageSet:
    images = torch.randint(0, 256, (count, 2, 16, 16), dtype=torch.uint8)
    return ImageSet(images, torch.randint(0, 5, (count, *labels)), tuple("abcde"))


class Wrapped(torch.utils.data.Dataset):
    """Any data set of a user's, which gives the items of another one."""

    def __init__(self, items: object, **changed: object) -> None:
        self.items = items
        self.changed = {int(key.strip("_")): value for key, value in changed.items()}

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> object:
        return self.changed[index] if index in self.changed else self.items[index]


class Augmented(Wrapped):
    def __getitem__(self, index: int) -> object:
        image, label = self.items[index]
        shift = random.randrange(9) + np.random.randint(9) + int(torch.randint(9, ()))
        return image.roll(shift, -1), label


class Killed(Wrapped):
    def __getitem__(self, index: int) -> object:
        if index == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.items[index]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 2), (1, 2)])
def test_streamed_folder_batches_equal_in_memory_batches(
    photos: Path, train: bool, rank: int, world_size: int
) -> None:
    options = {"train": train, "preprocess": PIPELINE, "seed": 3, "rank": rank, "world_size": world_size}
    memory, streamed = load(f"folder:{photos}", stream=False), load(f"folder:{photos}", stream=True)
    expected = Batches(memory, 8, **options)
    for num_workers in (0, 2):
        batches = StreamBatches(streamed, 8, num_workers=num_workers, **options)
        assert (len(batches), batches.batch_size, batches.num_images) == (4, 8, 30)
        assert torch.equal(batches.order(1), expected.order(1))
        assert_same(list(batches.epoch(0)), list(expected.epoch(0)))
        assert_same(list(batches.epoch(1, start=2)), list(expected.epoch(1))[2:])


@pytest.mark.parametrize("labels", [(), (3,)])
def test_any_dataset_gives_the_same_batches(labels: tuple[int, ...]) -> None:
    images = noise_set(labels=labels)
    options = {"train": True, "preprocess": PIPELINE, "rank": 3, "world_size": 4}
    expected = list(Batches(images, 16, **options).epoch(2))
    assert_same(list(StreamBatches(Wrapped(images), 16, **options).epoch(2)), expected)
    assert expected[0].labels.shape == (4, *labels)


def test_an_empty_part_has_the_shape_of_its_batch() -> None:
    images = noise_set(count=9)
    options = {"train": True, "preprocess": PIPELINE, "rank": 0, "world_size": 4}
    expected = list(Batches(images, 8, **options).epoch(0))
    assert expected[-1].images.shape == (0, 2, 12, 12)
    assert_same(list(StreamBatches(Wrapped(images), 8, **options).epoch(0)), expected)


def test_a_dataset_that_augments_is_the_same_with_any_number_of_workers() -> None:
    augmented = Augmented(noise_set())
    runs = [
        list(StreamBatches(augmented, 8, train=True, seed=1, num_workers=workers).epoch(4))
        for workers in (0, 1, 2)
    ]
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])
    batches = StreamBatches(augmented, 8, train=True, seed=1)
    assert_same(list(batches.epoch(4, start=2)), runs[0][2:])
    first, second = (torch.cat([each.images for each in batches.epoch(epoch)]) for epoch in (0, 1))
    order = [batches.order(epoch).argsort() for epoch in (0, 1)]
    assert not torch.equal(first[order[0]], second[order[1]])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_global_random_state_is_not_touched(num_workers: int) -> None:
    batches = StreamBatches(Augmented(noise_set()), 8, train=True, num_workers=num_workers)

    def states() -> list:
        return [torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()]

    before = states()
    list(batches.epoch(0))
    assert states() == before


def test_workers_stay_between_epochs_and_end_with_the_object() -> None:
    batches = StreamBatches(Wrapped(noise_set()), 8, train=True, num_workers=2)
    list(batches.epoch(0))
    workers = {child.pid for child in multiprocessing.active_children()}
    assert len(workers) == 2
    suspended = batches.epoch(1)
    next(suspended)
    list(batches.epoch(2))
    assert {child.pid for child in multiprocessing.active_children()} == workers
    with pytest.raises(RuntimeError, match="another one was started"):
        next(suspended)
    batches.close()
    assert not multiprocessing.active_children()
    suspended = batches.epoch(3)
    next(suspended)
    assert len(multiprocessing.active_children()) == 2
    del batches, suspended
    gc.collect()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_broken_image_is_named(tmp_path: Path, num_workers: int) -> None:
    for index in range(6):
        (tmp_path / "a").mkdir(exist_ok=True)
        noise = np.random.default_rng(index).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"a/{index}.png")
    broken = tmp_path / "a/3.png"
    broken.write_bytes(broken.read_bytes()[:3000])
    images = load(f"folder:{tmp_path}", stream=True, test_fraction=0.1, seed=0)
    with pytest.raises(DataError, match=r"^[^\n]*a/3\.png: the image is damaged or cut short[^\n]*$"):
        list(StreamBatches(images, 2, train=False, num_workers=num_workers).epoch(0))
    assert not multiprocessing.active_children()


def test_a_killed_worker_is_reported() -> None:
    batches = StreamBatches(Killed(noise_set()), 4, train=False, num_workers=2)
    with pytest.raises(RunError, match=r"process that reads the data ended .* use fewer workers"):
        list(batches.epoch(0))
    assert not multiprocessing.active_children()


IMAGE = torch.zeros(2, 16, 16, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (IMAGE, r"item 5: the data set must give pairs \(image, label\), got Tensor"),
        ((IMAGE, 1, 2), r"pairs \(image, label\), got tuple of length 3"),
        (("cat.png", 1), "item 5: an image must be a tensor, a PIL image or an array, got str"),
        ((IMAGE.long(), 1), "item 5: pixels must be uint8"),
        ((IMAGE[0], 1), r"item 5: an image must be \[C, H, W\], got \[16, 16\]"),
        ((IMAGE.float() / 0, 1), "item 5: a pixel is not a finite number"),
        ((IMAGE[:, 1:], 1), "image 5 is"),
        ((IMAGE.float(), 1), r"image 5 is torch.float32 .* but image 4 is torch.uint8"),
        ((IMAGE, "cat"), "item 5: a label must be a whole number, or K of them, got 'cat'"),
        ((IMAGE, 1.0), "item 5: a label must be a whole number"),
        ((IMAGE, torch.tensor([0.5])), "item 5: a label must be a whole number"),
        ((IMAGE, torch.tensor([1, 2])), r"label 5 is torch.int64 \[2\], but label 4 is torch.int64 \[\]"),
    ],
)
def test_wrong_items_are_named(item: object, message: str) -> None:
    dataset = Wrapped(noise_set(), _5=item)
    with pytest.raises(DataError, match=message):
        list(StreamBatches(dataset, 4, train=False).epoch(0))


def test_an_error_of_the_dataset_keeps_its_type() -> None:
    dataset = Wrapped([(IMAGE, 0)] * 3 + [None])
    dataset.items = {0: (IMAGE, 0), 1: (IMAGE, 0), 3: (IMAGE, 0), 4: (IMAGE, 0)}
    for num_workers in (0, 1):
        with pytest.raises(KeyError, match="2"):
            list(StreamBatches(dataset, 4, train=False, num_workers=num_workers).epoch(0))


def test_float_images_and_other_number_types_are_accepted() -> None:
    images = noise_set(8)
    floats = [
        (image.double() / 255, label)
        for image, label in zip(images.images, (np.int64(1), torch.tensor(2), 0, True, 4, 0, 0, 0))
    ]
    (batch,) = StreamBatches(floats, 8, train=False).epoch(0)
    assert batch.images.dtype == torch.float32
    torch.testing.assert_close(batch.images, images.images / 255)
    assert batch.labels.tolist() == [1, 2, 0, 1, 4, 0, 0, 0]


def test_a_dataset_without_a_length_is_refused() -> None:
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(())

    for dataset in (Endless(), iter([])):
        with pytest.raises(ValueError, match="must have a length and be read by index"):
            StreamBatches(dataset, 4, train=True)
    with pytest.raises(ValueError, match="empty"):
        StreamBatches([], 4, train=True)
    with pytest.raises(ValueError, match="num_workers must be a whole number of at least 0"):
        StreamBatches([(IMAGE, 0)], 4, train=True, num_workers=-1)


def test_make_batches_picks_by_where_the_images_are(photos: Path) -> None:
    assert type(make_batches(noise_set(), 4, train=True, num_workers=2)) is Batches
    streamed = make_batches(
        load(f"folder:{photos}", stream=True), 4, train=True, seed=5, rank=1, world_size=2, num_workers=1
    )
    assert type(streamed) is StreamBatches
    assert (streamed.seed, streamed.rank, streamed.world_size, streamed.num_workers) == (5, 1, 2, 1)
    assert type(make_batches(torch.utils.data.Subset(noise_set(), [0, 3]), 2, train=False)) is StreamBatches


def test_folders_are_streamed_by_size(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(f"folder:{photos}").in_memory
    assert isinstance(load(f"folder:{photos}"), ImageSet)
    monkeypatch.setattr(folder_module, "STREAM_ABOVE", 30 * 3 * 16 * 16 - 1)
    assert not load(f"folder:{photos}").in_memory
    assert load(f"folder:{photos}", "test").in_memory
    assert load(f"folder:{photos}", stream=False).in_memory
    with pytest.raises(ValueError, match="stream must be True or False"):
        load(f"folder:{photos}", stream="no")


def test_image_file_set(photos: Path) -> None:
    memory, files = load(f"folder:{photos}"), load(f"folder:{photos}", stream=True)
    assert isinstance(files, ImageFileSet)
    assert (len(files), files.in_channels, files.image_size) == (30, 3, (16, 16))
    assert (files.classes, files.num_classes, dict(files.metadata)) == (("cat", "dog"), 2, {})
    assert files.num_bytes == memory.images.numel()
    assert torch.equal(files.labels, memory.labels)
    for which in (files.labels == 1, torch.tensor([4, 2, 2])):
        part, expected = files.select(which), memory.select(which)
        assert torch.equal(part.to_memory().images, expected.images)
        assert torch.equal(part.labels, expected.labels)
    copy = pickle.loads(pickle.dumps(files))
    assert torch.equal(copy[7][0], files[7][0])
    assert copy[7][1] == 0
    with pytest.raises(ValueError, match="labels has 1 rows for 2 images"):
        ImageFileSet(["a.png", "b.png"], torch.tensor([0]), ("cat",), (8, 8))


STREAM = """
import resource, torch
from torchcaps.data import StreamBatches

class Large(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        return torch.full((3, 256, 256), index % 256, dtype=torch.uint8), index % 10

def peak(who):
    return resource.getrusage(who).ru_maxrss / 1024

for count in (100, 3000):  # 19 MiB and 563 MiB
    batches = StreamBatches(Large(count), 32, train=True, num_workers=2)
    seen = sum(len(batch.images) for batch in batches.epoch(0))
    batches.close()
    print(seen, peak(resource.RUSAGE_SELF), peak(resource.RUSAGE_CHILDREN))
"""


def test_memory_does_not_grow_with_the_dataset() -> None:
    # Large tensors straight from the system: what glibc's heap loses to fragmentation is not measured here.
    done = subprocess.run(
        [sys.executable, "-c", STREAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"},
    )
    (few, main, workers), (many, main_after, workers_after) = (
        map(float, line.split()) for line in done.stdout.splitlines()
    )
    assert (few, many) == (100, 3000)
    assert main_after - main < 100
    assert workers_after - workers < 100
