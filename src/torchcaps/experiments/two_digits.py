from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import BLUE, GRAY, LIGHT, add_axes, new_figure
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Claim, Study, count_parameters
from torchcaps.models import Model
from torchcaps.training import Recipe, default_recipe, evaluate, load_recipe, predict

# Name of each network in the report, and how its recipe differs from that of the first one.
NETWORKS = {
    "capsules, dynamic routing": [],
    "capsules, uniform coupling": ['model.options.routing="uniform"'],
    "capsules, k-means routing": ['model.options.routing="kmeans"', 'model.options.metric="cosine"'],
    "CNN, average pooling": ['model.name="pooled_cnn"'],
}
DYNAMIC, UNIFORM, _, POOLED = NETWORKS
PUBLISHED = [
    ["essay: capsules", None, 99.3, 90.0, 90.0],
    ["essay: CNN", None, 99.3, 40.0, 10.0],
]
MIN_LEAD = 20  # points


def run(study: Study) -> None:
    """Train every network on single digits, and test it on pairs of digits."""
    single, pairs = load_test_images(study)
    rows: list[list[Any]] = []
    models: dict[str, Model] = {}
    for name, changes in NETWORKS.items():
        models[name] = study.train(name, base_recipe(study).override(changes))
        rows.append([name, *measure(study, name, models[name], single, pairs)])
    study.add_table(
        "Trained on single digits, tested on two digits",
        [
            "network",
            "parameters",
            "single digit correct (%)",
            "both correct (%)",
            "both correct, scores > 0.5 (%)",
        ],
        rows + PUBLISHED,
        caption=f"{len(pairs):,} pairs of test digits; a pair is correct only if both digits are. In the "
        "last column, both scores must also be above 0.5. Shaded: the numbers of the essay, from its text "
        "(“over 90 %” for capsules).",
        marked=[len(rows), len(rows) + 1],
    )
    above_half = {name: row[4] for name, row in zip(NETWORKS, rows)}
    draw_examples(study, models, pairs)
    if above_half[DYNAMIC] - above_half[UNIFORM] < 5:
        study.add_text(
            "Routing is not the reason here: capsules with uniform coupling, which ignores agreement, reach "
            f"{percent(above_half[UNIFORM])} with scores above 0.5. Both capsule networks sum and squash the "
            "votes of each class separately, so that a second digit adds to its own class and does not "
            "lower the others. Average pooling does not do this."
        )


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    """Whether capsules recognize two digits clearly more often than the CNN."""
    best_two, above_half = (
        {name: numbers[f"{name}.{key}"] for name in (DYNAMIC, POOLED)} for key in ("both", "above_half")
    )
    return (
        all(correct[DYNAMIC] > correct[POOLED] + MIN_LEAD for correct in (best_two, above_half)),
        f"Capsules recognize both digits in {percent(best_two[DYNAMIC])} of the pairs, a CNN with the same "
        f"number of parameters in {percent(best_two[POOLED])}. If both scores must be above 0.5, it is "
        f"{percent(above_half[DYNAMIC])} and {percent(above_half[POOLED])}. (Criterion: capsules lead by "
        f"more than {MIN_LEAD} points in both.)",
    )


def base_recipe(study: Study) -> Recipe:
    """Shared capsules on single digits."""
    if not study.quick:
        recipe = default_recipe("shared_capsnet", "mnist")
        return recipe.override(["training.epochs=3", 'training.precision="bf16"'])
    return load_recipe("digits-shared-capsnet").override(
        ["training.epochs=24", "training.ema_decay=0.99", "evaluation.extra_datasets=[]"]
    )


def load_test_images(study: Study) -> tuple[ImageSet, ImageSet]:
    """Single test digits, and pairs of them side by side."""
    if study.quick:
        return load("digits", "test", size=16), load("two_digits", "test", source="digits", size=16)
    return load("mnist", "test", data_dir=study.data_dir), load("two_digits", "test", data_dir=study.data_dir)


def measure(study: Study, name: str, model: Model, single: ImageSet, pairs: ImageSet) -> list[float]:
    """The number of parameters, and the three accuracies in percent."""

    def compute() -> dict[str, float]:
        one, two = evaluate(model, single), evaluate(model, pairs)
        return {
            "single": 100 * one.accuracy,
            "both": 100 * two.accuracy,
            "above_half": 100 * two.accuracy_above_half,
        }

    values = study.cached(f"accuracy of {name}", compute)
    for key, value in values.items():
        study.add_number(f"{name}.{key}", value)
    return [count_parameters(model), *values.values()]


def draw_examples(study: Study, models: dict[str, Model], pairs: ImageSet, count: int = 5) -> None:
    """Draw pairs, and below them the scores of capsules and of the CNN."""
    chosen = torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1]
    images = pairs.images[chosen].float() / 255
    shown = [DYNAMIC, UNIFORM, POOLED]
    figure = new_figure(9.6, 5.6)
    panels = add_axes(figure, 1 + len(shown), count, height_ratios=[1.1] + [1] * len(shown))
    for column in range(count):
        panels[column].imshow(images[column, 0], cmap="gray_r", interpolation="nearest")
        panels[column].axis("off")
    for row, name in enumerate(shown, start=1):
        scores = predict(models[name], images).scores
        for column in range(count):
            ax = panels[row * count + column]
            truth = set(pairs.labels[chosen[column]].tolist())
            colors = [BLUE if digit in truth else LIGHT for digit in range(10)]
            ax.bar(range(10), scores[column].tolist(), color=colors, edgecolor=GRAY, linewidth=0.4)
            ax.axhline(0.5, color=GRAY, linewidth=0.7, linestyle=":")
            ax.set(ylim=(0, 1), xticks=range(10), yticks=[0, 0.5, 1])
            ax.tick_params(labelsize=7, labelleft=column == 0)
            ax.grid(visible=False)
            if column == 0:
                ax.set_ylabel(name.replace(", ", ",\n"), fontsize=8)
    study.add_figure(
        "examples",
        figure,
        caption="Two test digits side by side, and the score that each network gives to each class; the true "
        "digits are blue, and the dotted line is 0.5. With capsules both scores can be above 0.5; average "
        "pooling divides the score between the two digits.",
    )


CLAIM = Claim(
    name="two-digits",
    claim="trained on single digits, capsules recognize two digits; a CNN with pooling does not",
    source="Su Jianlin, “A delicious capsule feast” (essay, 2018); shared capsules on a CNN",
    data="MNIST",
    quick_data="scikit-learn's digits",
    minutes=25,
    run=run,
    judge=judge,
    published="essay: capsules over 90 % of the pairs, CNN 40 %, and 10 % with both scores above 0.5",
)
