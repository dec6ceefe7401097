"""Settings chosen on validation images: the learning rate of each network, before any test image is seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from torchcaps.errors import RunError
from torchcaps.experiments.framework.study import Study
from torchcaps.models import Model
from torchcaps.training.recipe import Recipe


class Chosen(NamedTuple):
    """A network with its learning rate.

    Attributes:
        model: of the epoch with the lowest validation error.
        lr: learning rate.
        validation: its error on the validation images, in percent.
    """

    model: Model
    lr: float
    validation: float


def train_best_rate(study: Study, name: str, recipe: Recipe, rates: Sequence[float]) -> Chosen:
    """Train a network once with each learning rate and keep the one with the lowest validation error.

    Args:
        study: trains the networks, or loads those that it has trained already.
        name: of the network inside the study.
        recipe: what to train; `data.val_fraction` must hold out validation images.
        rates: learning rates; of two that are equally good, the first one is kept. Seeds other than 0 take
            the rate of seed 0, if it is known: see `rates_to_try`.
    """
    if not recipe.data.val_fraction:
        raise ValueError("data.val_fraction must be above 0: a learning rate is chosen on validation images")
    tried = []
    for rate in rates_to_try(study, name, rates):
        trained = f"{name}, lr {rate:g}"
        model = study.train(trained, recipe.override([f"optimizer.lr={rate}"]))
        tried.append(Chosen(model, rate, validation_error(study, trained)))
    best = min(tried, key=lambda each: each.validation)
    study.add_number(f"lr.{name}", best.lr)
    return best


def rates_to_try(study: Study, name: str, rates: Sequence[float]) -> Sequence[float]:
    """The learning rates that a network is trained with: all of them with seed 0, then the best of these.

    A rate is a setting of the network, so it is chosen once. The other seeds show how results vary with it.

    Args:
        study: whose seed it is. It knows what seed 0 chose if that was added as the number `lr.NAME`.
        name: of the network.
        rates: learning rates.
    """
    chosen = study.first.get(f"lr.{name}")
    return [rate for rate in rates if rate == chosen] or rates


def validation_error(study: Study, name: str) -> float:
    """The lowest validation error of the training run `name`, in percent: that of the model it reports."""
    return min(validation_errors(study, name))


def validation_errors(study: Study, name: str) -> list[float]:
    """The validation error of the training run `name` after each epoch, in percent."""
    path = study.training_folder(name) / "metrics.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    errors = [100 * record["validation"]["error"] for record in records if "validation" in record]
    if not errors:
        raise RunError(f"{path} has no validation errors: set data.val_fraction in the recipe")
    return errors
