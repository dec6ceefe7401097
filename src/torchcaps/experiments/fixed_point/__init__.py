from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.fixed_point.figures import UPDATES, draw_couplings, draw_curves
from torchcaps.experiments.fixed_point.iterations import ITERATIONS, measure_iterations
from torchcaps.experiments.fixed_point.verdicts import add_verdicts
from torchcaps.experiments.framework.formatting import small_number
from torchcaps.experiments.framework.networks import digit_capsnet
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.models import Model
from torchcaps.training import load_recipe


def run(study: Study) -> None:
    """Route the votes of trained networks up to a hundred times, with both updates of the logits."""
    images = load_test_images(study)
    networks = {update: train_network(study, update) for update in UPDATES}
    curves = {
        update: {
            trained: study.cached(
                f"{update} in the network trained with {trained}",
                partial(measure_iterations, model, images, update),
            )
            for trained, model in networks.items()
        }
        for update in UPDATES
    }
    rows: list[list[Any]] = []
    for trained in UPDATES:
        for update, name in UPDATES.items():
            result = curves[update][trained]
            rows.append(
                [
                    UPDATES[trained],
                    name,
                    result["entropy"][-1],
                    result["hard"],
                    small_number(result["change"][-1]),
                    *(result["accuracy"][r - 1] for r in (1, 3, 10, ITERATIONS)),
                ]
            )
            study.add_number(f"trained with {trained}.{update}.hard", result["hard"])
            for key in ("entropy", "change", "accuracy"):
                study.add_number(f"trained with {trained}.{update}.{key}", result[key][-1])
    study.add_table(
        f"Results of {ITERATIONS} iterations at test time",
        [
            "trained with",
            "tested with",
            "entropy of the couplings (%)",
            "couplings that are 0 or 1 (%)",
            "change of the poses",
            "correct, r = 1 (%)",
            "r = 3 (%)",
            "r = 10 (%)",
            f"r = {ITERATIONS} (%)",
        ],
        rows,
        caption=f"Two networks trained with 3 iterations, tested on {len(images):,} images. The first three "
        f"numbers are those after iteration {ITERATIONS}. The entropy of the couplings of a child is 100 % "
        "for uniform coupling, which r = 1 has. A coupling counts as 0 or 1 if it is within 0.01 of it. The "
        "change is the mean distance that a class pose moves in the last iteration. The last four columns "
        "are accuracies with r iterations.",
    )
    draw_curves(study, {update: result["accumulate"] for update, result in curves.items()})
    draw_couplings(study, networks["accumulate"], images)
    add_verdicts(study, curves, len(images))


def train_network(study: Study, update: str) -> Model:
    """A network trained with one of the updates; both are trained equally long."""
    if study.quick:
        recipe = load_recipe("digits-shared-capsnet").override(
            ["training.epochs=16", "training.ema_decay=0.98", "evaluation.extra_datasets=[]"]
        )
    else:
        recipe = digit_capsnet()
    # Accumulation is what the recipe has: so it is the same network as in other experiments.
    change = [] if update == "accumulate" else [f'model.options.update="{update}"']
    return study.train(update, recipe.override(change))


def load_test_images(study: Study) -> ImageSet:
    """Test digits of the data set that the networks were trained on."""
    if study.quick:
        return load("digits", "test", size=16)
    return load("mnist", "test", data_dir=study.data_dir).select(torch.arange(5000))


CLAIM = Claim(
    name="fixed-point",
    claim="accumulation makes couplings 0 or 1; the fixed-point form of routing converges",
    source="Su Jianlin, “A delicious capsule feast” (essay, 2018), on Sabour, Frosst, Hinton 2017",
    data="MNIST, 20,000 training images",
    quick_data="scikit-learn's digits",
    minutes=20,
    run=run,
    published="the essay gives no numbers",
)
