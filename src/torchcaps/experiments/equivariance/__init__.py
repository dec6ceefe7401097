from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.equivariance.changes import CHANGES, count_features, measure, response_curves
from torchcaps.experiments.equivariance.figures import COLORS, draw_curves, draw_predictability
from torchcaps.experiments.equivariance.verdicts import (
    COMPONENTS,
    DECODED,
    DENSE,
    PIXELS,
    POOLED,
    SHARED,
    UNIFORM,
    Results,
    add_verdicts,
    judge,
)
from torchcaps.experiments.framework.networks import shortened
from torchcaps.experiments.framework.study import Claim, Study, count_parameters
from torchcaps.models import Model
from torchcaps.training import Recipe, load_recipe

REDUCED = 16  # numbers of a pose
# The CNN of the paper with as many parameters as the capsules.
PAPER_CNN = 'model={name="capsnet_cnn", options={channels=[32, 32, 8], hidden=[164, 64]}}'


def run(study: Study) -> None:
    """Shift, rotate and scale digits, and measure what changes and how well it predicts the change."""
    train, test = load_digits(study, "train"), load_digits(study, "test")
    rows: list[list[Any]] = []
    curves: dict[str, dict[str, list[float]]] = {}
    results: Results = {}
    for name in COLORS:
        model = train_network(study, name)
        parameters = count_parameters(model)
        curves[name] = study.cached(f"curves of {name}", partial(response_curves, model, test))
        results[name] = study.cached(f"changes of {name}", partial(measure, study, model, train, test))
        rows.append([name, parameters, count_features(model), *results[name].values()])
        if name in COMPONENTS:
            fewer = COMPONENTS[name]
            results[fewer] = study.cached(fewer, partial(measure, study, model, train, test, REDUCED))
            rows.append([fewer, parameters, REDUCED, *results[fewer].values()])
    results[PIXELS] = study.cached(PIXELS, partial(measure, study, None, train, test, REDUCED))
    rows.append([PIXELS, None, REDUCED, *results[PIXELS].values()])
    for name, values in results.items():
        for key, value in values.items():
            if value is not None:
                study.add_number(f"{name}.{key}", value)
    study.add_table(
        "Digits that are shifted, rotated and scaled",
        [
            "features",
            "parameters",
            "number of features",
            "test error (%)",
            "change of the score (%)",
            "change of the features (%)",
            *(f"R² {name}" for name in CHANGES),
            "R² mean",
        ],
        rows,
        caption="Compare the test errors first: features of networks with different errors are not fully "
        "comparable. The score and the features are those of the true class; the change of the features is "
        "relative to their length. R²: how well ridge regression, one for each class, predicts shift, "
        "rotation and scale from the change of the features, on digits that it was not fitted to (1 is "
        "perfect, 0 is no better than the mean). 16 components: the features of a CNN, or the pixels, "
        "reduced by principal component analysis of their changes to as many numbers as a pose has. Dense "
        "features: the last hidden layer.",
    )
    draw_curves(study, curves)
    draw_predictability(study, results)
    add_verdicts(study, results)


def train_network(study: Study, name: str) -> Model:
    """A network trained on digits that are shifted by up to 2 pixels, all for the same number of epochs."""
    file = {SHARED: "mnist-shared-capsnet", DECODED: "mnist-capsnet-small", UNIFORM: "mnist-capsnet-small"}
    recipe = load_recipe(file.get(name, "mnist-pooled-cnn")).override(["evaluation.extra_datasets=[]"])
    if name == DENSE:
        recipe = recipe.override([PAPER_CNN, 'loss={name="cross_entropy"}'])
    recipe = quick_recipe(recipe) if study.quick else shortened(recipe)
    if not study.quick and name in (SHARED, POOLED):
        recipe = recipe.override(["model.options.stages=[[32, 32], [64, 64]]"])
    if name == UNIFORM:
        recipe = recipe.override(['model.options.routing="uniform"'])
    return study.train(name, recipe)


def quick_recipe(recipe: Recipe) -> Recipe:
    """The recipe with the digits of scikit-learn and a smaller network."""
    has_decoder = recipe.model.name == "capsnet_small"
    smaller = {
        "capsnet_small": "model.options.channels=32",
        "capsnet_cnn": "model.options.channels=[16, 16, 8]",
    }.get(recipe.model.name, "model.options.stages=[[24, 24], [48]]")
    return recipe.override(
        [
            'data.name="digits"',
            "data.options.size=24",
            "data.preprocess={translate=2}",
            smaller,
            f"loss.reconstruction={0.005 if has_decoder else 0.0}",
            "optimizer.lr=2e-3",
            "training.batch_size=32",
            f"training.epochs={40 if 'stages' in smaller else 10}",
            "training.ema_decay=0.99",
        ]
    )


def load_digits(study: Study, split: str) -> ImageSet:
    """Digits to fit the regression to (`"train"`) or to test it on (`"test"`)."""
    if study.quick:
        return load("digits", split, size=24)
    some = torch.arange(3000 if split == "train" else 2000)
    return load("mnist", split, data_dir=study.data_dir).select(some)


CLAIM = Claim(
    name="equivariance",
    claim="when an object moves, the length of its capsule stays the same and its pose changes",
    source="Sabour, Frosst, Hinton, “Dynamic Routing Between Capsules” (2017), section 1; "
    "Hinton, Krizhevsky, Wang, “Transforming Auto-encoders” (2011)",
    data="MNIST, 20,000 training images",
    quick_data="scikit-learn's digits",
    minutes=35,
    run=run,
    judge=judge,
    published="the papers give no numbers",
)
