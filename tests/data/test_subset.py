from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from torchcaps.data import ImageFileSet, ImageSet, limit_images, load
from torchcaps.data.subset import share


def numbered(counts: list[int]) -> ImageSet:
    """Classes of the given sizes in mixed order; each image holds its own number in `metadata`."""
    labels = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    images = torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)
    names = tuple("abcdefghij")[: len(counts)]
    return ImageSet(images, labels, names, {"number": torch.arange(len(labels))})


def numbers(images: ImageSet) -> list[int]:
    return images.metadata["number"].tolist()


@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=6), total=st.integers(1, 120))
def test_shares_are_equal_as_far_as_the_classes_go(counts: list[int], total: int) -> None:
    shares = share(counts, total)
    assert sum(shares) == min(total, sum(counts))
    assert all(0 <= part <= count for part, count in zip(shares, counts))
    largest = max(shares)
    assert all(part in (largest, largest - 1) for part, count in zip(shares, counts) if part < count)


def test_a_limit_keeps_balance_order_and_rows() -> None:
    images = numbered([5, 50, 50])
    part = limit_images(images, total=45)
    assert part.labels.bincount().tolist() == [5, 20, 20]
    assert numbers(part) == sorted(numbers(part))
    assert torch.equal(part.labels, images.labels[part.metadata["number"]])


def test_the_draw_is_seeded_and_nested() -> None:
    images = numbered([40, 40, 40])
    assert numbers(limit_images(images, total=30)) == numbers(limit_images(images, total=30))
    assert numbers(limit_images(images, total=30)) != numbers(limit_images(images, total=30, seed=1))
    few, more = set(numbers(limit_images(images, total=30))), set(numbers(limit_images(images, total=61)))
    assert few < more
    assert set(numbers(limit_images(images, per_class=10))) == few


def test_a_limit_above_the_size_keeps_everything() -> None:
    images = numbered([3, 4])
    assert numbers(limit_images(images, total=99)) == list(range(7))
    assert limit_images(images) is images


def test_load_takes_limits() -> None:
    assert load("digits", limit_per_class=7).labels.bincount().tolist() == [7] * 10
    assert len(load("digits", "test", size=16, limit=33)) == 33
    pairs = load("two_digits", "test", source="digits", limit=12)
    assert pairs.labels.shape == (12, 2)
    assert len(pairs.metadata["source_index"]) == 12


def test_streamed_sets_are_limited_too(tmp_path: Path) -> None:
    for index in range(12):
        path = tmp_path / f"{'ab'[index % 2]}/{index}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), index, np.uint8)).save(path)
    options = {"test_fraction": 0.1, "limit_per_class": 3}
    memory = load(f"folder:{tmp_path}", stream=False, **options)
    streamed = load(f"folder:{tmp_path}", stream=True, **options)
    assert isinstance(streamed, ImageFileSet)
    assert torch.equal(streamed.to_memory().images, memory.images)
    assert streamed.labels.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit must be a whole number of at least 1, got 0"),
        ({"limit": "many"}, "limit must be a whole number"),
        ({"limit_per_class": -1}, "limit_per_class must be a whole number of at least 1"),
        ({"limit": 5, "limit_per_class": 5}, "either limit or limit_per_class"),
        ({"limit_per_class": 150}, "limit_per_class is 150, but class '0' has only 143 images"),
    ],
)
def test_wrong_limits_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load("digits", **options)
    with pytest.raises(ValueError, match="use limit instead"):
        load("two_digits", source="digits", limit_per_class=3)
