"""Networks are compared on images of a new kind where they are equally good on those of the old kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.workbench.study import Study
from torchcaps.models.weights import load_weights
from torchcaps.training.evaluation import evaluate


class Moment(NamedTuple):
    """How good a network was after an epoch: errors in percent on images of the old and of the new kind."""

    epoch: int
    familiar: float
    novel: float


def course(
    study: Study, name: str, familiar: ImageSet, novel: ImageSet, preprocess: Preprocess | None = None
) -> list[Moment]:
    """Test the model of every epoch that the training `name` of a study kept."""
    moments = []
    for epoch, path in enumerate(study.epochs(name), start=1):

        def test() -> dict[str, float]:
            model, _ = load_weights(path)  # noqa: B023 - called before the loop goes on
            errors = [evaluate(model, images, preprocess).error for images in (familiar, novel)]
            return {"familiar": 100 * errors[0], "novel": 100 * errors[1]}

        moments.append(Moment(epoch, **study.keep(f"{name}, epoch {epoch}", test)))
    return moments


def common_level(courses: Sequence[Sequence[Moment]]) -> float:
    """The familiar error that all networks reach: the final one of the weakest.

    The paper trains the CNN to its end and stops the capsule network when it is as good; this does the same
    without saying beforehand which of them will be the better one.

    Example:
        >>> common_level([[Moment(1, 40.0, 60.0), Moment(2, 20.0, 45.0)], [Moment(1, 10.0, 30.0)]])
        20.0
    """
    return max(moments[-1].familiar for moments in courses)


def at_level(moments: Sequence[Moment], level: float) -> Moment:
    """The moment whose familiar error is nearest to `level`, so that no side gains by epochs being coarse.

    Of two equally near ones the earlier.

    Example:
        >>> at_level([Moment(1, 40.0, 60.0), Moment(2, 19.0, 45.0), Moment(3, 10.0, 42.0)], 20.0).epoch
        2
    """
    return min(moments, key=lambda moment: abs(moment.familiar - level))


def equally_good(one: Moment, other: Moment, within: float = 3.0) -> bool:
    """Whether two models are near enough on the old kind of images to be compared on the new one.

    Epochs are coarse, and a network may never pass the level of the others.

    Example:
        >>> equally_good(Moment(2, 20.0, 45.0), Moment(5, 21.5, 40.0))
        True
        >>> equally_good(Moment(2, 20.0, 45.0), Moment(5, 31.0, 40.0))
        False
    """
    return abs(one.familiar - other.familiar) <= within
