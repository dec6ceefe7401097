"""Metrics as sums over images, so that batches and processes simply add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LIKELY = 0.5


def all_correct(scores: Tensor, labels: Tensor) -> Tensor:
    """Which images have **all** their labels right: no half credit.

    Args:
        scores: `[B, classes]`.
        labels: `[B]`, or `[B, K]` distinct ones in any order, right if they are the K highest scores.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1, 0.8], [0.9, 0.8, 0.1]])
        >>> all_correct(scores, torch.tensor([[2, 0], [2, 0]]))
        tensor([ True, False])
    """
    if labels.ndim == 1:
        return scores.argmax(1) == labels
    best = scores.topk(labels.shape[1], dim=1).indices
    return (best.sort(1).values == labels.sort(1).values).all(1)


def all_above_half(scores: Tensor, labels: Tensor) -> Tensor:
    """Which images have all their labels right, each with a score above one half.

    >>> all_above_half(torch.tensor([[0.9, 0.1, 0.4], [0.9, 0.1, 0.6]]), torch.tensor([[2, 0], [2, 0]]))
    tensor([False,  True])
    """
    columns = labels.unsqueeze(1) if labels.ndim == 1 else labels
    return all_correct(scores, labels) & (scores.gather(1, columns) > LIKELY).all(1)


@dataclass(frozen=True)
class Evaluation:
    """What a model does on a data set.

    - `confusion`: int64 `[classes, classes]`, true class by row, said class by column; `None` where an
      image holds several objects.
    - `accuracy`: share of images with all labels right; `likely` asks for scores above one half as well.
    - `reconstruction`: mean squared error, summed over pixels; `None` without a decoder.
    """

    count: int
    accuracy: float
    likely: float
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
            "accuracy_above_half": self.likely,
            "loss": self.loss,
            "reconstruction": self.reconstruction,
        }
        return {name: value for name, value in numbers.items() if value is not None}


class Sums:
    """Adds up batches; `Evaluation` is what they come to.

    >>> sums = Sums(("a", "b"), objects=1)
    >>> sums.add(torch.tensor([[0.9, 0.1], [0.8, 0.3]]), torch.tensor([0, 1]))
    >>> sums.evaluation().accuracy, sums.evaluation().confusion.tolist()
    (0.5, [[1, 0], [1, 0]])
    """

    def __init__(self, classes: tuple[str, ...], objects: int, device: torch.device | str = "cpu") -> None:
        self.classes = classes
        self.single = objects == 1
        # count, right, likely, loss, reconstruction and how many images those two were taken of
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
        """Add a batch: scores `[B, classes]`, its mean loss, and squared errors `[B]` of what was drawn."""
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
            places = labels * len(self.classes) + scores.argmax(1)
            self.confusion += torch.bincount(places, minlength=self.confusion.numel()).view_as(self.confusion)

    def evaluation(self) -> Evaluation:
        """The metrics of everything added."""
        count, right, likely, loss, lossy, drawn, drawings = self.totals.tolist()
        if not count:
            raise ValueError("there are no images to evaluate on")
        return Evaluation(
            count=int(count),
            accuracy=right / count,
            likely=likely / count,
            loss=loss / lossy if lossy else None,
            classes=self.classes,
            confusion=self.confusion.cpu() if self.single else None,
            reconstruction=drawn / drawings if drawings else None,
        )
