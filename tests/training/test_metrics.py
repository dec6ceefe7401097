import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchcaps.training.metrics import MetricSums, all_above_half, all_correct


@given(st.permutations(range(5)), st.integers(0, 3))
def test_one_of_two_labels_counts_nothing(order: list[int], wrong: int) -> None:
    """Right only if the two labels are the two best, in either order."""
    scores = torch.tensor([[0.9, 0.8, 0.3, 0.2, 0.1]])[:, order]
    best, second = order.index(0), order.index(1)
    pair = torch.tensor([[best, second]])
    assert all_correct(scores, pair)
    assert all_correct(scores, pair.flip(1))
    other = [place for place in range(5) if place not in (best, second)][wrong % 3]
    assert not all_correct(scores, torch.tensor([[best, other]]))


def test_above_half_needs_every_score() -> None:
    pair = torch.tensor([[0, 1]])
    assert all_above_half(torch.tensor([[0.9, 0.51, 0.1]]), pair)
    assert not all_above_half(torch.tensor([[0.9, 0.5, 0.1]]), pair)
    assert not all_above_half(torch.tensor([[0.9, 0.6, 0.7]]), pair), "a third one louder is a wrong answer"


def test_repeated_classes_count_once() -> None:
    """Scores tell which classes are there, not how often: K labels may exceed the number of classes."""
    scores = torch.tensor([[0.9, 0.2], [0.2, 0.9], [0.9, 0.6]])
    houses = torch.tensor([[0, 0, 0, 0]] * 3)
    assert all_correct(scores, houses).tolist() == [True, False, True]
    assert all_above_half(scores, houses).tolist() == [True, False, True]
    both = torch.tensor([[0, 1, 1, 0]] * 3)
    assert all_correct(scores, both).all(), "every class is there, so none can be wrong"
    assert all_above_half(scores, both).tolist() == [False, False, True]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=7), st.permutations(range(5)))
def test_the_distinct_labels_must_be_the_best_classes(labels: list[int], order: list[int]) -> None:
    scores = torch.tensor(order).float().unsqueeze(0) / 5
    distinct = set(labels)
    best = set(sorted(range(5), key=lambda place: -order[place])[: len(distinct)])
    assert bool(all_correct(scores, torch.tensor([labels]))) == (best == distinct)


def test_evaluating_no_images_is_an_error() -> None:
    with pytest.raises(ValueError, match="no images"):
        MetricSums(tuple("abcd")).evaluation()
