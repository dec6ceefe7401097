"""Metrics as sums over images, so that batches and processes can be added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

THRESHOLD = 0.5


def class_presence(labels: Tensor, num_classes: int) -> Tensor:
    """Which classes an image holds: 0 and 1, `[B, classes]`, from labels `[B, K]`; repeated ones count once.

    >>> class_presence(torch.tensor([[2, 0], [1, 1]]), 3)
    tensor([[1., 0., 1.],
            [0., 1., 0.]])
    """
    return torch.zeros(len(labels), num_classes, device=labels.device).scatter(1, labels, 1.0)


def all_correct(scores: Tensor, labels: Tensor) -> Tensor:
    """Which images have **all** their labels right; partly right counts as wrong.

    Scores tell which classes are there, not how often. So an image with K labels, of which n are distinct, is
    right if these n classes have the n highest scores. Where all classes are present every answer is right;
    `all_above_half` asks for more.

    Args:
        scores: `[B, classes]`.
        labels: `[B]`, or `[B, K]` in any order, where classes may be repeated.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1, 0.8], [0.9, 0.8, 0.1], [0.1, 0.9, 0.2]])
        >>> all_correct(scores, torch.tensor([[2, 0], [2, 0], [1, 1]]))
        tensor([ True, False,  True])
    """
    if labels.ndim == 1:
        return scores.argmax(1) == labels
    present = class_presence(labels, scores.shape[1])
    distinct = present.sum(1, keepdim=True)
    by_score = present.gather(1, scores.argsort(1, descending=True))
    place = torch.arange(scores.shape[1], device=scores.device)
    return ((place >= distinct) | (by_score == 1)).all(1)


def all_above_half(scores: Tensor, labels: Tensor) -> Tensor:
    """Which images have all their labels right, each with a score above one half.

    >>> all_above_half(torch.tensor([[0.9, 0.1, 0.4], [0.9, 0.1, 0.6]]), torch.tensor([[2, 0], [2, 0]]))
    tensor([False,  True])
    """
    columns = labels.unsqueeze(1) if labels.ndim == 1 else labels
    return all_correct(scores, labels) & (scores.gather(1, columns) > THRESHOLD).all(1)


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a model on a data set.

    Attributes:
        count: number of images.
        accuracy: share of images with all labels right.
        accuracy_above_half: the same, with every score of a label above one half as well.
        loss: mean classification loss; `None` if it was not measured.
        classes: names of the classes.
        confusion: int64 `[classes, classes]`, true class by row, predicted class by column; `None` where an
            image has several labels.
        reconstruction: squared error, summed over pixels, mean over images; `None` without a decoder.
    """

    count: int
    accuracy: float
    accuracy_above_half: float
    loss: float | None
    classes: tuple[str, ...]
    confusion: Tensor | None = None
    reconstruction: float | None = None

    @property
    def error(self) -> float:
        """Share of images not right."""
        return 1 - self.accuracy

    def per_class(self) -> list[tuple[str, int, float, float]]:
        """Name, number of images, recall and precision of each class."""
        if self.confusion is None:
            return []
        table = self.confusion.double()
        right = table.diag()
        recall, precision = right / table.sum(1).clamp(min=1), right / table.sum(0).clamp(min=1)
        counts = self.confusion.sum(1).tolist()
        return list(zip(self.classes, counts, recall.tolist(), precision.tolist()))

    def summary(self) -> dict[str, Any]:
        """The numbers alone, as they go into JSON."""
        numbers = {
            "count": self.count,
            "accuracy": self.accuracy,
            "error": self.error,
            "accuracy_above_half": self.accuracy_above_half,
            "loss": self.loss,
            "reconstruction": self.reconstruction,
        }
        return {name: value for name, value in numbers.items() if value is not None}

    def details(self) -> dict[str, Any]:
        """`summary`, with recall and precision of each class and the confusion matrix where there are any."""
        if self.confusion is None:
            return self.summary()
        keys = ("class", "count", "recall", "precision")
        return {
            **self.summary(),
            "classes": [dict(zip(keys, row)) for row in self.per_class()],
            "confusion": self.confusion.tolist(),
        }


class MetricSums:
    """Adds up batches; `evaluation` divides the sums.

    >>> sums = MetricSums(("a", "b"))
    >>> sums.add(torch.tensor([[0.9, 0.1], [0.8, 0.3]]), torch.tensor([0, 1]))
    >>> sums.evaluation().accuracy, sums.evaluation().confusion.tolist()
    (0.5, [[1, 0], [1, 0]])
    """

    def __init__(self, classes: tuple[str, ...], device: torch.device | str = "cpu") -> None:
        self.classes = classes
        self.several_labels = False
        # Images, right, right above one half, loss and images it is of, reconstruction and images it is of.
        self.totals = torch.zeros(7, dtype=torch.float64, device=device)
        self.confusion = torch.zeros(len(classes), len(classes), dtype=torch.int64, device=device)

    def add(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        loss: Tensor | None = None,
        reconstruction: Tensor | None = None,
    ) -> None:
        """Add a batch: scores `[B, classes]`, its mean loss, and squared errors `[B]` of reconstructions."""
        size = len(labels)
        self.totals[0] += size
        self.totals[1] += all_correct(scores, labels).sum()
        self.totals[2] += all_above_half(scores, labels).sum()
        if loss is not None:
            self.totals[3] += loss.double() * size
            self.totals[4] += size
        if reconstruction is not None:
            self.totals[5] += reconstruction.double().sum()
            self.totals[6] += size
        if labels.ndim == 1:
            cells = labels * len(self.classes) + scores.argmax(1)
            self.confusion += torch.bincount(cells, minlength=self.confusion.numel()).view_as(self.confusion)
        else:
            self.several_labels = True

    def evaluation(self) -> Evaluation:
        """The metrics of everything added."""
        count, right, above_half, loss, with_loss, error, with_error = self.totals.tolist()
        if not count:
            raise ValueError("there are no images to evaluate on")
        return Evaluation(
            count=int(count),
            accuracy=right / count,
            accuracy_above_half=above_half / count,
            loss=loss / with_loss if with_loss else None,
            classes=self.classes,
            confusion=None if self.several_labels else self.confusion.cpu(),
            reconstruction=error / with_error if with_error else None,
        )
