from __future__ import annotations

import pytest
import torch

from torchcaps.data import Batches, ImageSet, Preprocess

PIPELINE = Preprocess(translate=2, crop=12, brightness=0.2, contrast=0.2, standardize=True)


@pytest.fixture
def imageset() -> ImageSet:
    images = torch.randint(0, 256, (53, 2, 16, 16), dtype=torch.uint8)
    return ImageSet(images, torch.arange(53) % 5, tuple("abcde"))


def training(imageset: ImageSet, **options: object) -> Batches:
    return Batches(imageset, 8, train=True, preprocess=PIPELINE, **options)


def assert_same(first: list, second: list) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second):
        assert all(torch.equal(a, b) for a, b in zip(one, other))


def test_an_epoch_holds_every_image_once(imageset: ImageSet) -> None:
    batches = list(training(imageset).epoch(0))
    assert [len(batch.images) for batch in batches] == [8] * 6 + [5]
    indices = torch.cat([batch.indices for batch in batches])
    assert indices.sort().values.tolist() == list(range(53))
    assert torch.equal(torch.cat([batch.labels for batch in batches]), imageset.labels[indices])
    assert batches[0].images.shape == (8, 2, 12, 12)
    assert batches[0].images.dtype == torch.float32


def test_an_epoch_can_be_resumed_in_the_middle(imageset: ImageSet) -> None:
    whole = list(training(imageset, seed=7).epoch(3))
    assert_same(list(training(imageset, seed=7).epoch(3, start=4)), whole[4:])


def test_earlier_epochs_and_global_random_state_do_not_matter(imageset: ImageSet) -> None:
    used = training(imageset)
    list(used.epoch(0))
    torch.rand(100)
    assert_same(list(used.epoch(1)), list(training(imageset).epoch(1)))


def test_epochs_and_seeds_differ(imageset: ImageSet) -> None:
    orders = [training(imageset, seed=seed).order(epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_two_batches_of_an_epoch_are_augmented_differently() -> None:
    same = ImageSet(
        torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).repeat(16, 1, 1, 1),
        torch.zeros(16).long(),
        ("a",),
    )
    first, second = Batches(same, 8, train=True, preprocess=PIPELINE).epoch(0)
    assert not torch.equal(first.images, second.images)


@pytest.mark.parametrize("world_size", [2, 4, 8])
@pytest.mark.parametrize("train", [True, False])
def test_parts_of_processes_make_the_whole_batch(imageset: ImageSet, world_size: int, train: bool) -> None:
    options = {"train": train, "preprocess": PIPELINE, "seed": 2}
    whole = list(Batches(imageset, 8, **options).epoch(1))
    parts = [
        list(Batches(imageset, 8, rank=rank, world_size=world_size, **options).epoch(1))
        for rank in range(world_size)
    ]
    assert {len(part) for part in parts} == {len(whole)}
    for number, batch in enumerate(whole):
        for field in range(3):
            assert torch.equal(torch.cat([part[number][field] for part in parts]), batch[field])


def test_test_batches_come_in_order(imageset: ImageSet) -> None:
    batches = Batches(imageset, 10, train=False)
    assert torch.cat([batch.indices for batch in batches.epoch(0)]).tolist() == list(range(53))
    assert len(batches) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 9, "world_size": 2}, "evenly"),
        ({"batch_size": 8, "rank": 2, "world_size": 2}, "rank must be 0 to 1"),
    ],
)
def test_wrong_arguments_are_explained(imageset: ImageSet, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batches(imageset, train=True, **options)
    with pytest.raises(ValueError, match="empty"):
        Batches(imageset.select(torch.zeros(53, dtype=torch.bool)), 4, train=True)
