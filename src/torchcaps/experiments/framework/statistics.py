"""Fair comparison: differences beyond chance, and networks that are compared where they are equally good."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.framework.study import Study
from torchcaps.models.weights import load_weights
from torchcaps.training.evaluation import evaluate


def chance_margin(first: float, second: float, count: int) -> float:
    """Two standard errors of the difference of two percentages, `2 √((p(100−p) + q(100−q)) / n)`.

    A smaller difference may be chance. The images of both percentages are treated as independent samples.
    Where both networks saw the same images the true margin is smaller, so this is on the safe side.

    Args:
        first: a percentage, such as an error rate.
        second: the percentage it is compared with.
        count: number of images of each.

    Example:
        >>> chance_margin(50.0, 50.0, 200)
        10.0
    """
    variance = sum(share * (100 - share) / max(1, count) for share in (first, second))
    return 2 * variance**0.5


def significantly_higher(first: float, second: float, count: int) -> bool:
    """Whether the first of two percentages, each of `count` images, is higher by more than chance.

    >>> significantly_higher(100.0, 50.0, 100), significantly_higher(51.0, 50.0, 100)
    (True, False)
    """
    return first - second > chance_margin(first, second, count)


def normalized_entropy(probability: Tensor) -> float:
    """Mean entropy of distributions `[..., K]`, divided by ln K: 1 if uniform, 0 if each has one value.

    >>> normalized_entropy(torch.tensor([[0.5, 0.5], [0.0, 1.0]], dtype=torch.float64))
    0.5
    """
    return float(torch.special.entr(probability).sum(-1).mean()) / math.log(probability.shape[-1])


class EpochErrors(NamedTuple):
    """Errors after one epoch, in percent, on images like those of training and on images of a new kind."""

    epoch: int
    familiar: float
    novel: float


def errors_by_epoch(
    study: Study, name: str, familiar: ImageSet, novel: ImageSet, preprocess: Preprocess | None = None
) -> list[EpochErrors]:
    """Test the models of all epochs of the training run `name`, which must have kept them."""
    epochs = []
    for epoch, path in enumerate(study.epoch_paths(name), start=1):

        def test() -> dict[str, float]:
            model, _ = load_weights(path)  # noqa: B023 - called before the next iteration
            errors = [evaluate(model, images, preprocess).error for images in (familiar, novel)]
            return {"familiar": 100 * errors[0], "novel": 100 * errors[1]}

        epochs.append(EpochErrors(epoch, **study.cached(f"{name}, epoch {epoch}", test)))
    return epochs


def common_error(runs: Sequence[Sequence[EpochErrors]]) -> float:
    """The familiar error that all networks reach: the final error of the weakest one.

    The paper trains the CNN to the end and takes the capsule network from the epoch at which it is as good.
    This does the same without deciding in advance which network is better.

    Example:
        >>> weak = [EpochErrors(1, 40.0, 60.0), EpochErrors(2, 20.0, 45.0)]
        >>> strong = [EpochErrors(1, 10.0, 30.0)]
        >>> common_error([weak, strong])
        20.0
    """
    return max(epochs[-1].familiar for epochs in runs)


def epoch_at_error(epochs: Sequence[EpochErrors], error: float) -> EpochErrors:
    """The epoch whose familiar error is nearest to `error`, above or below, so that no network is favored.

    If two are equally near, the earlier one.

    Example:
        >>> epochs = [EpochErrors(1, 40.0, 60.0), EpochErrors(2, 19.0, 45.0), EpochErrors(3, 10.0, 42.0)]
        >>> epoch_at_error(epochs, 20.0).epoch
        2
    """
    return min(epochs, key=lambda each: abs(each.familiar - error))


def comparable(first: EpochErrors, second: EpochErrors, within: float = 3.0) -> bool:
    """Whether the familiar errors of two models differ by at most `within` points.

    They can differ more, because errors change a lot from epoch to epoch.

    Example:
        >>> comparable(EpochErrors(2, 20.0, 45.0), EpochErrors(5, 21.5, 40.0))
        True
        >>> comparable(EpochErrors(2, 20.0, 45.0), EpochErrors(5, 31.0, 40.0))
        False
    """
    return abs(first.familiar - second.familiar) <= within
