from __future__ import annotations

from typing import Any

import torch

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.drawing import CAPSULES, FAINT, QUIET, axes_of, new_figure
from torchcaps.experiments.workbench.study import Study
from torchcaps.models import Model
from torchcaps.training import Recipe, default_recipe, evaluate, load_recipe, predict

# What each network is called in the report, and how it differs from shared capsules with dynamic routing.
NETWORKS = {
    "capsules, dynamic routing": [],
    "capsules, uniform routing": ['model.options.routing="uniform"'],
    "capsules, k-means routing": ['model.options.routing="kmeans"', 'model.options.metric="cosine"'],
    "CNN, average pooling": ['model.name="pooled_cnn"'],
}
DYNAMIC, UNIFORM, _, POOLED = NETWORKS
PUBLISHED = [
    ["essay: capsules", None, 99.3, 90.0, 90.0],
    ["essay: CNN", None, 99.3, 40.0, 10.0],
]


def run(study: Study) -> None:
    """Train every network on single digits, test it on pairs."""
    single, pairs = test_images(study)
    rows: list[list[Any]] = []
    models: dict[str, Model] = {}
    for name, changes in NETWORKS.items():
        models[name] = study.train(name.replace(", ", "-").replace(" ", "_"), recipe(study).override(changes))
        rows.append([name, *measure(study, name, models[name], single, pairs)])
    study.table(
        "Trained on single digits, tested on two",
        ["network", "weights", "single digit right (%)", "both right (%)", "both right, scores > 0.5 (%)"],
        rows + PUBLISHED,
        caption=f"An image counts as right only if both digits are; {len(pairs):,} pairs of test digits. "
        "Shaded: the essay's figures, read from its text (“over 90 %” for capsules).",
        marked=[len(rows), len(rows) + 1],
    )
    both, sure = ({name: row[column] for name, row in zip(NETWORKS, rows)} for column in (3, 4))
    draw_examples(study, models, pairs)
    study.verdict(
        all(read[DYNAMIC] > read[POOLED] + 20 for read in (both, sure)),
        f"Capsules read {both[DYNAMIC]:.1f} % of the pairs, the CNN of as many weights {both[POOLED]:.1f} %; "
        f"with both scores asked to be above one half, {sure[DYNAMIC]:.1f} and {sure[POOLED]:.1f} %. (The "
        "claim is taken to hold if capsules are 20 points ahead both ways.)",
    )
    if sure[DYNAMIC] - sure[UNIFORM] < 5:
        study.text(
            "Routing is not what does it here: with uniform coupling, which never looks at agreement, "
            f"capsules read {sure[UNIFORM]:.1f} % with the threshold. What both have, and the CNN has not, "
            "is that votes are added up and squashed per class: a second digit adds to its own and takes "
            "from none."
        )


def recipe(study: Study) -> Recipe:
    """Shared capsules on single digits."""
    if not study.quick:
        recipe = default_recipe("shared_capsnet", "mnist")
        return recipe.override(["training.epochs=3", 'training.precision="bf16"'])
    return load_recipe("digits-shared-capsnet").override(
        ["training.epochs=24", "training.ema_decay=0.99", "evaluation.extra_datasets=[]"]
    )


def test_images(study: Study) -> tuple[ImageSet, ImageSet]:
    """Single test digits, and pairs of them side by side."""
    if study.quick:
        return load("digits", "test", size=16), load("two_digits", "test", source="digits", size=16)
    return load("mnist", "test", data_dir=study.data_dir), load("two_digits", "test", data_dir=study.data_dir)


def measure(study: Study, name: str, model: Model, single: ImageSet, pairs: ImageSet) -> list[float]:
    """Weights, and the three accuracies in percent."""

    def compute() -> dict[str, float]:
        one, two = evaluate(model, single), evaluate(model, pairs)
        return {
            "single": 100 * one.accuracy,
            "both": 100 * two.accuracy,
            "likely": 100 * two.accuracy_above_half,
        }

    found = study.keep(f"accuracy of {name}", compute)
    for key, value in found.items():
        study.number(f"{name}.{key}", value)
    return [sum(each.numel() for each in model.parameters()), *found.values()]


def draw_examples(study: Study, models: dict[str, Model], pairs: ImageSet, count: int = 5) -> None:
    """Pairs, and below each what capsules and the CNN say."""
    chosen = torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1]
    images = pairs.images[chosen].float() / 255
    shown = [DYNAMIC, UNIFORM, POOLED]
    figure = new_figure(9.6, 5.6)
    axes = axes_of(figure, 1 + len(shown), count, height_ratios=[1.1] + [1] * len(shown))
    for column in range(count):
        axes[column].imshow(images[column, 0], cmap="gray_r", interpolation="nearest")
        axes[column].axis("off")
    for row, name in enumerate(shown, start=1):
        scores = predict(models[name], images).scores
        for column in range(count):
            axis = axes[row * count + column]
            truth = set(pairs.labels[chosen[column]].tolist())
            colors = [CAPSULES if digit in truth else FAINT for digit in range(10)]
            axis.bar(range(10), scores[column].tolist(), color=colors, edgecolor=QUIET, linewidth=0.4)
            axis.axhline(0.5, color=QUIET, linewidth=0.7, linestyle=":")
            axis.set(ylim=(0, 1), xticks=range(10), yticks=[0, 0.5, 1])
            axis.tick_params(labelsize=7, labelleft=column == 0)
            axis.grid(visible=False)
            if column == 0:
                axis.set_ylabel(name.replace(", ", ",\n"), fontsize=8)
    study.figure(
        "examples",
        figure,
        caption="Two test digits side by side, and the score each network gives every class; the digits that "
        "are there in blue. Capsules raise both above the dotted half, average pooling dilutes them.",
    )


CLAIM = Claim(
    name="two-digits",
    claim="trained on single digits, capsules read two; pooling does not",
    source="Su Jianlin, “A delicious capsule feast” (essay, 2018); shared capsules on a CNN",
    data="MNIST",
    quick_data="scikit-learn's digits",
    minutes=25,
    run=run,
)
