from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import BLUE, GRAY, LIGHT, add_axes, new_figure
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.selection import train_best_rate
from torchcaps.experiments.framework.study import Claim, Study, count_parameters
from torchcaps.models import Model
from torchcaps.training import Recipe, evaluate, load_recipe, predict

# Name of each network in the report, and how its recipe differs from that of the first one.
NETWORKS = {
    "capsules, dynamic routing": [],
    "capsules, uniform coupling": ['model.options.routing="uniform"'],
    "capsules, k-means routing": ['model.options.routing="kmeans"', 'model.options.metric="cosine"'],
    "CNN, average pooling": ['model.name="pooled_cnn"'],
    "CNN, maximum over places": ['model.name="pooled_cnn"', 'model.options.pooling="max"'],
}
DYNAMIC, UNIFORM, _, POOLED, PLACES = NETWORKS
ON_PAIRS = "CNN, average pooling, trained on pairs"
"""The ceiling: it has seen two digits in training."""
PUBLISHED = [
    ["essay: capsules", None, 99.3, 90.0, 90.0, None],
    ["essay: CNN", None, 99.3, 40.0, 10.0, None],
]
MIN_LEAD = 20  # points
# Percent by which two networks may differ on single digits to be compared on pairs.
MAX_GAP = 0.5
QUICK_GAP = 5.0  # there are 360 single test digits
# Learning rates of the full form; validation digits decide for each network.
RATES = (1e-3, 3e-3)


def run(study: Study) -> None:
    """Train every network on single digits, and test it on pairs of digits."""
    single, pairs = load_test_images(study)
    rows: list[list[Any]] = []
    models: dict[str, Model] = {}
    for name in (*NETWORKS, ON_PAIRS):
        models[name], rate = train_network(study, name)
        values = measure(study, name, models[name], None if name == ON_PAIRS else single, pairs)
        rows.append([name, *values, rate])
    study.add_number("gap", QUICK_GAP if study.quick else MAX_GAP)
    study.add_table(
        "Trained on single digits, tested on two digits",
        [
            "network",
            "parameters",
            "single digit correct (%)",
            "both correct (%)",
            "both correct, scores > 0.5 (%)",
            "learning rate",
        ],
        rows + PUBLISHED,
        caption=f"{len(pairs):,} pairs of test digits; a pair is correct only if both digits are. In the "
        "fifth column, both scores must also be above 0.5. All networks have the same convolutions, loss and "
        "number of epochs"
        + ("" if study.quick else "; the learning rate and the epoch were chosen on validation digits")
        + ". “Maximum over places” classifies each place of the feature map and takes the largest score of "
        "each class. The last network was trained on pairs. Shaded: the numbers of the essay, from its text "
        "(“over 90 %” for capsules).",
        marked=[len(rows), len(rows) + 1],
    )
    draw_examples(study, models, pairs)
    add_verdicts(study)


def add_verdicts(study: Study) -> None:
    """Whether routing is needed for it, and whether capsules are."""
    numbers = study.numbers
    routed, even = numbers[f"{DYNAMIC}.above_half"], numbers[f"{UNIFORM}.above_half"]
    study.add_verdict(
        routed > even + MIN_LEAD / 4,
        f"With uniform coupling, which ignores agreement, capsules recognize {percent(even)} of the pairs "
        f"with both scores above 0.5, and with dynamic routing {percent(routed)}. Both kinds of capsules sum "
        "and squash the votes of each class on its own, so that a second digit adds to its own class and "
        f"does not lower the others. (Criterion: a lead of {MIN_LEAD / 4:.0f} points.)",
        question="Is routing the reason?",
    )
    places = numbers[f"{PLACES}.above_half"]
    study.add_verdict(
        routed > places + MIN_LEAD / 4,
        f"A CNN that takes the maximum over places has {percent(places)}, and "
        f"{percent(numbers[f'{PLACES}.both'])} by the two largest scores. (Criterion: capsules lead by "
        f"{MIN_LEAD / 4:.0f} points.)",
        question="Are capsules needed for it?",
    )


def judge(numbers: Mapping[str, float]) -> tuple[bool | None, str]:
    """Whether capsules recognize two digits clearly more often than the CNN with average pooling."""
    best_two, above_half, single = (
        {name: numbers[f"{name}.{key}"] for name in (DYNAMIC, POOLED)}
        for key in ("both", "above_half", "single")
    )
    fair = abs(single[DYNAMIC] - single[POOLED]) <= numbers["gap"]
    holds = all(correct[DYNAMIC] > correct[POOLED] + MIN_LEAD for correct in (best_two, above_half))
    even = numbers[f"{UNIFORM}.both"]
    return (
        holds if fair else None,
        f"Capsules recognize both digits in {percent(best_two[DYNAMIC])} of the pairs (without routing in "
        f"{percent(even)}), a CNN with average pooling and about as many parameters in "
        f"{percent(best_two[POOLED])}. If both scores must be above 0.5, it is "
        f"{percent(above_half[DYNAMIC])} and {percent(above_half[POOLED])}. Of single digits they have "
        f"{percent(single[DYNAMIC])} and {percent(single[POOLED])}. (Criterion: capsules lead by more than "
        f"{MIN_LEAD} points in both, at single accuracies within {numbers['gap']:.1f} points.)"
        + (
            "" if fair else " They are not equally good on single digits, so this comparison is not reliable."
        ),
    )


def train_network(study: Study, name: str) -> tuple[Model, float]:
    """A trained network and its learning rate, which validation digits chose in the full form."""
    recipe = make_recipe(study, name)
    if study.quick:
        return study.train(name, recipe), recipe.optimizer.lr
    chosen = train_best_rate(study, name, recipe, RATES)
    return chosen.model, chosen.lr


def make_recipe(study: Study, name: str) -> Recipe:
    """A network on single digits, or for the ceiling on pairs."""
    if name == ON_PAIRS:
        source = 'data.options={source="digits", size=16}' if study.quick else "data.options={}"
        return base_recipe(study).override([*NETWORKS[POOLED], 'data.name="two_digits"', source])
    return base_recipe(study).override(NETWORKS[name])


def base_recipe(study: Study) -> Recipe:
    """Shared capsules on single digits."""
    if not study.quick:
        return load_recipe("mnist-shared-capsnet").override(
            [
                # Half the channels of the essay and a third of MNIST, for all networks alike.
                "model.options.stages=[[32, 32], [64, 64]]",
                "data.limit=20000",
                "data.val_fraction=0.03",
                "training.epochs=10",
                "training.ema_decay=0.99",
                "evaluation.extra_datasets=[]",
            ]
        )
    return load_recipe("digits-shared-capsnet").override(
        ["training.epochs=24", "training.ema_decay=0.99", "evaluation.extra_datasets=[]"]
    )


def load_test_images(study: Study) -> tuple[ImageSet, ImageSet]:
    """Single test digits, and pairs of them side by side."""
    if study.quick:
        return load("digits", "test", size=16), load("two_digits", "test", source="digits", size=16)
    return load("mnist", "test", data_dir=study.data_dir), load("two_digits", "test", data_dir=study.data_dir)


def measure(
    study: Study, name: str, model: Model, single: ImageSet | None, pairs: ImageSet
) -> list[float | None]:
    """The number of parameters, and the three accuracies in percent.

    Args:
        study: keeps the accuracies.
        name: of the network.
        model: the network.
        single: single digits; `None` for a network that reads pairs only.
        pairs: of digits.
    """

    def compute() -> dict[str, float]:
        two = evaluate(model, pairs)
        one = {} if single is None else {"single": 100 * evaluate(model, single).accuracy}
        return {**one, "both": 100 * two.accuracy, "above_half": 100 * two.accuracy_above_half}

    values = study.cached(f"accuracy of {name}", compute)
    for key, value in values.items():
        study.add_number(f"{name}.{key}", value)
    return [count_parameters(model), *(values.get(key) for key in ("single", "both", "above_half"))]


def draw_examples(study: Study, models: dict[str, Model], pairs: ImageSet, count: int = 5) -> None:
    """Draw pairs, and below them the scores of capsules and of the CNN."""
    chosen = torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1]
    images = pairs.images[chosen].float() / 255
    shown = [DYNAMIC, UNIFORM, POOLED, PLACES]
    figure = new_figure(9.6, 6.8)
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
        "digits are blue, and the dotted line is 0.5.",
    )


CLAIM = Claim(
    name="two-digits",
    claim="trained on single digits, capsules recognize two digits; a CNN with pooling does not",
    source="Su Jianlin, “A delicious capsule feast” (essay, 2018); shared capsules on a CNN",
    data="MNIST, 20,000 training images",
    quick_data="scikit-learn's digits",
    minutes=80,
    run=run,
    judge=judge,
    published="essay: capsules over 90 % of the pairs, CNN 40 %, and 10 % with both scores above 0.5",
)
