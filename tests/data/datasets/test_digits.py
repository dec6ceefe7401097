from __future__ import annotations

import pytest
import torch

from torchcaps.data import load


def test_the_splits_share_nothing_and_hold_everything() -> None:
    train, test = load("digits", "train"), load("digits", "test")
    assert len(train) + len(test) == 1797
    rows = torch.cat([train.images, test.images]).flatten(1)
    assert len(rows.unique(dim=0)) == 1797


def test_the_split_is_stratified_and_always_the_same() -> None:
    train, test = load("digits", "train"), load("digits", "test")
    share = test.labels.bincount() / (test.labels.bincount() + train.labels.bincount())
    assert (share - 0.2).abs().max() < 0.01
    assert torch.equal(load("digits", "test").images, test.images)


def test_values_fill_the_byte_range() -> None:
    digits = load("digits")
    assert (digits.images.min(), digits.images.max()) == (0, 255)
    assert digits.images.shape[1:] == (1, 8, 8)


def test_scaling() -> None:
    assert load("digits", size=20).images.shape[1:] == (1, 20, 20)
    with pytest.raises(ValueError, match="size"):
        load("digits", size=0)
