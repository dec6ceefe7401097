from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import Output
from torchcaps.plots import confusion_figure
from torchcaps.training.evaluation import evaluate
from torchcaps.training.metrics import MetricSums, all_above_half, all_correct
from torchcaps.training.recipe import LossPart

CLASSES = tuple("abcd")


class Bright(torch.nn.Module):
    """Says of an image the brightness of its first pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> Output:
        scores = images.flatten(1)[:, : len(CLASSES)]
        return Output(scores, scores, reconstruction=torch.zeros_like(images))


def some_images(count: int = 37, labels: torch.Tensor | None = None, size: int = 4) -> ImageSet:
    pixels = torch.randint(256, (count, 1, size, size), dtype=torch.uint8)
    labels = torch.randint(len(CLASSES), (count,)) if labels is None else labels
    return ImageSet(pixels, labels, CLASSES)


def test_agrees_with_scikit_learn() -> None:
    images = some_images(200)
    said = images.images.flatten(1)[:, :4].float().argmax(1)
    got = evaluate(Bright(), images, batch_size=30)
    np.testing.assert_array_equal(got.confusion, confusion_matrix(images.labels, said))
    recall = recall_score(images.labels, said, average=None)
    precision = precision_score(images.labels, said, average=None)
    np.testing.assert_allclose([row[2] for row in got.per_class()], recall)
    np.testing.assert_allclose([row[3] for row in got.per_class()], precision)
    assert got.accuracy == pytest.approx((images.labels == said).double().mean().item())


@pytest.mark.parametrize("world_size", [2, 3, 40])
def test_shares_of_processes_add_up(world_size: int) -> None:
    images = some_images()
    whole = evaluate(Bright(), images, batch_size=7, loss=LossPart())
    mailbox: dict[int, list[torch.Tensor]] = {}

    def add_up_to(rank: int, tensor: torch.Tensor) -> torch.Tensor:
        """What this and all earlier processes have; the last one so has the sum."""
        mine = mailbox.setdefault(rank, [])
        mine.append(tensor if rank == 0 else tensor + mailbox[rank - 1][len(mine)])
        return mine[-1]

    for rank in range(world_size):
        share = partial(add_up_to, rank)
        options = {"rank": rank, "world_size": world_size, "add_up": share}
        summed = evaluate(Bright(), images, batch_size=7, loss=LossPart(), **options)
    assert summed.summary() == pytest.approx(whole.summary())
    assert torch.equal(summed.confusion, whole.confusion)


@given(st.permutations(range(5)), st.integers(0, 3))
def test_pairs_get_no_half_credit(order: list[int], wrong: int) -> None:
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


def test_crops_are_averaged() -> None:
    images = some_images(size=6)
    preprocess = Preprocess(crop=4)
    views = preprocess.test_crops(images.images, 3)
    mean = torch.stack([view.flatten(1)[:, :4] for view in views.unbind(1)]).mean(0)
    got = evaluate(Bright(), images, preprocess, crops=3, batch_size=5)
    assert got.accuracy == pytest.approx((mean.argmax(1) == images.labels).double().mean().item())


def test_reconstruction_error_is_summed_over_pixels() -> None:
    images = ImageSet(torch.full((3, 1, 4, 4), 255, dtype=torch.uint8), torch.zeros(3).long(), CLASSES)
    assert evaluate(Bright(), images).reconstruction == pytest.approx(16.0)


def test_nothing_to_evaluate_is_an_error() -> None:
    with pytest.raises(ValueError, match="no images"):
        MetricSums(CLASSES).evaluation()


def test_confusion_figure_is_drawn(tmp_path: Path) -> None:
    drawn = confusion_figure(evaluate(Bright(), some_images()), tmp_path / "confusion.png", "title")
    assert drawn.stat().st_size > 5000
    pairs = some_images(5, torch.tensor([[0, 1]] * 5))
    with pytest.raises(ValueError, match="one label"):
        confusion_figure(evaluate(Bright(), pairs), tmp_path / "none.png")
