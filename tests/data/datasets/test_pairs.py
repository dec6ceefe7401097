from __future__ import annotations

import pytest
import torch

from torchcaps.data import ImageSet, load
from torchcaps.data.datasets.pairs import add_clipped, choose_pairs, overlay, side_by_side
from torchcaps.errors import DataError


@pytest.fixture
def single() -> ImageSet:
    images = torch.randint(0, 256, (40, 1, 28, 28), dtype=torch.uint8)
    return ImageSet(images, torch.arange(40) % 4, tuple("abcd"))


def test_adding_clips() -> None:
    first, second = torch.randint(0, 256, (2, 1000), dtype=torch.uint8)
    expected = (first.int() + second.int()).clamp(max=255)
    assert torch.equal(add_clipped(first, second).int(), expected)


def test_pairs_differ_in_class_and_use_every_image() -> None:
    labels = torch.tensor([0] * 30 + [1])
    pairs = choose_pairs(labels, 3, torch.Generator().manual_seed(0))
    assert (labels[pairs[:, 0]] != labels[pairs[:, 1]]).all()
    assert pairs[:, 0].bincount().tolist() == [3] * 31
    with pytest.raises(ValueError, match="two classes"):
        choose_pairs(torch.zeros(4, dtype=torch.int64), 1, torch.Generator())


@pytest.mark.parametrize("overlap", [0, 5, 28])
def test_two_digits_are_at_the_right_place(single: ImageSet, overlap: int) -> None:
    pairs = side_by_side(single, overlap=overlap, seed=1)
    left, right = (single.images[pairs.metadata["source_index"][:, side]].int() for side in (0, 1))
    expected = torch.zeros(40, 1, 28, 56 - overlap, dtype=torch.int32)
    expected[..., :28] += left
    expected[..., 28 - overlap :] += right
    assert torch.equal(pairs.images.int(), expected.clamp(max=255))
    assert torch.equal(pairs.labels, single.labels[pairs.metadata["source_index"]])
    assert (pairs.labels[:, 0] != pairs.labels[:, 1]).all()


def test_multimnist_parts_make_the_whole(single: ImageSet) -> None:
    made = overlay(single, per_image=20, seed=3)
    parts = made.metadata["parts"]
    assert made.images.shape == (800, 1, 36, 36)
    assert parts.shape == (800, 2, 36, 36)
    assert torch.equal(made.images[:, 0].int(), parts.int().sum(1).clamp(max=255))
    assert (made.labels[:, 0] != made.labels[:, 1]).all()


def test_multimnist_shifts_by_up_to_four_pixels(single: ImageSet) -> None:
    dots = ImageSet(torch.zeros_like(single.images), single.labels, single.classes)
    dots.images[:, 0, 14, 14] = 255
    parts = overlay(dots, per_image=50, seed=0).metadata["parts"].flatten(0, 1)
    for line in (parts.amax(1), parts.amax(2)):
        found = line.argmax(1).bincount(minlength=36)
        assert found.nonzero()[:, 0].tolist() == list(range(14, 23))
        assert found[14:23].min() > 0.6 * len(parts) / 9


@pytest.mark.parametrize("name", ["two_digits", "multimnist"])
def test_the_seed_decides(name: str) -> None:
    first, again, other = (load(name, "test", source="digits", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.images, other.images)


def test_wrong_options_are_explained() -> None:
    with pytest.raises(ValueError, match="overlap"):
        load("two_digits", "test", source="digits", overlap=9)
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        load("two_digits", "test", source="digit")
    with pytest.raises(ValueError, match="per_image"):
        load("multimnist", "test", source="digits", per_image=0)


def test_without_mnist_the_source_is_named(cache) -> None:
    with pytest.raises(DataError, match="mnist"):
        load("multimnist", "test")


def test_real_mnist_pairs(mnist_test: ImageSet) -> None:
    made = overlay(mnist_test)
    box = 20 * 20
    assert made.images.shape == (10_000, 1, 36, 36)
    assert (made.images > 0).flatten(1).sum(1).float().mean() < box
