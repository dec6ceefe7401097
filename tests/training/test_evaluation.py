from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, precision_score, recall_score
from torch import nn

from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import Output
from torchcaps.training import predict
from torchcaps.training.evaluation import evaluate
from torchcaps.training.recipe import LossPart

CLASSES = tuple("abcd")


class Bright(torch.nn.Module):
    """Scores an image by the brightness of its first pixels."""

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
def test_metrics_of_several_processes_are_those_of_one(world_size: int) -> None:
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


@pytest.mark.parametrize("crops", [1, 2])
@pytest.mark.parametrize("world_size", [1, 3])
def test_any_data_set_gives_what_an_image_set_gives(crops: int, world_size: int) -> None:
    images = some_images(size=6)
    items = list(zip(images.images, images.labels.tolist()))
    options: dict = {"crops": crops, "batch_size": 5, "world_size": world_size}
    preprocess = Preprocess(crop=4)
    expected = evaluate(Bright(), images, preprocess, **options)
    got = evaluate(Bright(), items, preprocess, **options)
    assert got.summary() == expected.summary()
    assert torch.equal(got.confusion, expected.confusion)
    assert got.classes == tuple("0123")


def test_plain_logits_become_probabilities() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, len(CLASSES)))
    images = some_images()
    output = predict(model, images.images.float() / 255, batch_size=10)
    torch.testing.assert_close(output.scores, output.logits.softmax(1))
    got = evaluate(model, images, loss=LossPart("cross_entropy"))
    assert got.loss == pytest.approx(nn.functional.cross_entropy(output.logits, images.labels).item())
