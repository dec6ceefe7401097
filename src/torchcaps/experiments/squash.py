from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from torchcaps.capsules import SQUASHES, length, squash
from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    ORANGE,
    PINK,
    YELLOW,
    add_axes,
    new_figure,
)
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.networks import ten_thousand_digits
from torchcaps.experiments.framework.selection import train_best_rate
from torchcaps.experiments.framework.statistics import chance_margin
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.models import CapsuleModel, Model
from torchcaps.training import Recipe, default_recipe, evaluate

PRIMARY, CLASS = "primary", "class"
BASE = "hinton"
FORMULAS = {
    "hinton": "n² / (1 + n²)",
    "half": "n² / (0.5 + n²)",
    "tanh": "tanh n",
    "exp": "1 − e⁻ⁿ",
    "ratio": "n / (1 + n)",
    "none": "n",
}
COLORS = dict(zip(FORMULAS, (BLUE, ORANGE, GREEN, PINK, YELLOW, GRAY)))


class Network(NamedTuple):
    """Which squash each level has."""

    primary: str
    classes: str

    @property
    def name(self) -> str:
        """Name of the network in the study."""
        return f"primary {self.primary}, class {self.classes}"


def networks() -> dict[tuple[str, str], Network]:
    """The networks, by the level that differs and its squash; the other level has that of the paper."""
    at_primary = {(PRIMARY, kind): Network(kind, BASE) for kind in SQUASHES}
    return at_primary | {(CLASS, kind): Network(BASE, kind) for kind in SQUASHES}


def run(study: Study) -> None:
    """Train one network for each squash at each level."""
    test = load_test_images(study)
    rates = (3e-3,) if study.quick else (1e-3, 3e-3)
    study.add_number("images", len(test))
    errors: dict[tuple[str, str], float] = {}
    rows: list[list[Any]] = []
    for (level, kind), network in networks().items():
        chosen = train_best_rate(study, network.name, make_recipe(study, network), rates)
        measured = study.cached(f"test of {network.name}", partial(measure, chosen.model, test))
        errors[level, kind] = measured["error"]
        shown = [measured["error"], chosen.validation, measured["child"], measured["parent"], chosen.lr]
        rows.append([f"{level}: {kind}", FORMULAS[kind], *shown])
        for key, value in measured.items():
            study.add_number(f"{level}.{kind}.{key}", value)
    study.add_table(
        "Squash functions at each level",
        [
            "level: squash",
            "new length of a vector of length n",
            "test error (%)",
            "validation error (%)",
            "mean length, primary",
            "mean length, true class",
            "learning rate",
        ],
        rows,
        caption=f"Each network differs in one level and has the squash of the paper ({BASE}) at the other. "
        f"Epoch and learning rate (of {', '.join(f'{rate:g}' for rate in rates)}) were chosen on validation "
        f"images. {len(test):,} test images, {network_text(study)}.",
    )
    draw_curves(study)
    draw_errors(study, errors)
    add_verdicts(study, errors, len(test))


def make_recipe(study: Study, network: Network) -> Recipe:
    """A small network on part of the training images, trained for the same number of steps."""
    squashes = ["model.options.channels=32"]
    # What the recipe has anyway is not said, so that the first network is that of `reconstruction` too.
    if network != Network(BASE, BASE):
        squashes.append(f'model.options.primary_squash="{network.primary}"')
        squashes.append(f'model.options.squash="{network.classes}"')
    if study.quick:
        changes = ["data.options.size=20", "data.val_fraction=0.15", "training.epochs=6"]
        changes += ["training.batch_size=32", "training.ema_decay=0.98", "loss.reconstruction=0.0"]
        return default_recipe("capsnet_small", "digits").override([*squashes, *changes])
    return ten_thousand_digits().override(squashes)


def network_text(study: Study) -> str:
    """The data of a training run in words."""
    return "1,200 training images" if study.quick else "10,000 training images, 6 epochs"


def load_test_images(study: Study) -> ImageSet:
    """Test digits in the size of the networks."""
    if study.quick:
        return load("digits", "test", size=20)
    return load("mnist", "test", data_dir=study.data_dir)


@torch.no_grad()
def measure(model: Model, test: ImageSet) -> dict[str, float]:
    """Test error in percent, and the mean length of primary capsules and of the true class capsule."""
    assert isinstance(model, CapsuleModel)
    some = test.images[:500].float() / 255
    children = model.forward_features(some)
    parents = length(model(some).capsules.pose)
    return {
        "error": 100 * evaluate(model, test).error,
        "child": float(length(children.pose).mean()),
        "parent": float(parents.gather(1, test.labels[:500, None]).mean()),
    }


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    """Whether 0.5 in place of 1 lowers the error of the class capsules by more than chance."""
    half, base = numbers[f"{CLASS}.half.error"], numbers[f"{CLASS}.{BASE}.error"]
    margin = chance_margin(half, base, int(numbers["images"]))
    return (
        base - half > margin,
        f"With 0.5 in place of 1 in the squash of the class capsules, the test error is {percent(half)}; "
        f"with 1 it is {percent(base)}. In the primary capsules it is "
        f"{percent(numbers[f'{PRIMARY}.half.error'])} with 0.5. (Criterion: lower by more than two standard "
        f"errors of one seed, {margin:.1f} points.)",
    )


def add_verdicts(study: Study, errors: Mapping[tuple[str, str], float], count: int) -> None:
    """Whether each level needs a squash at all."""
    for level, question in (
        (PRIMARY, "Is a squash needed in the primary capsules?"),
        (CLASS, "Is a squash needed in the class capsules?"),
    ):
        none, base = errors[level, "none"], errors[level, BASE]
        study.add_verdict(
            none - base > chance_margin(none, base, count),
            f"Without one the error is {percent(none)}, with that of the paper {percent(base)}. (Criterion: "
            "higher by more than two standard errors.)",
            question=question,
        )


def draw_curves(study: Study) -> None:
    """Draw the length after squashing against that before."""
    figure = new_figure(5.2, 3.4)
    ax = add_axes(figure)[0]
    before = torch.linspace(0, 3, 301)
    for kind, color in COLORS.items():
        after = squash(before.unsqueeze(1), kind)[:, 0]
        ax.plot(before, after, color=color, linewidth=1.6, label=f"{kind}: {FORMULAS[kind]}")
    ax.axhline(1, color=DARK, linewidth=0.7, linestyle=":")
    ax.set(xlabel="length n before", ylabel="length after", ylim=(0, 1.3))
    ax.legend(fontsize=8, loc="lower right")
    study.add_figure(
        "squashes",
        figure,
        caption="How long a vector is after squashing. “hinton” shortens short vectors most; “tanh”, “exp” "
        "and “ratio” leave the shortest ones as they are.",
    )


def draw_errors(study: Study, errors: Mapping[tuple[str, str], float]) -> None:
    """Draw the test errors of all networks."""
    figure = new_figure(7.2, 3.0)
    for ax, level in zip(add_axes(figure, 1, 2, sharey=True), (PRIMARY, CLASS)):
        values = [errors[level, kind] for kind in SQUASHES]
        ax.bar(list(SQUASHES), values, color=[COLORS[kind] for kind in SQUASHES])
        ax.axhline(errors[level, BASE], color=DARK, linewidth=0.8, linestyle=":")
        ax.set(title=f"squash of the {level} capsules", ylabel="test error (%)" if level == PRIMARY else "")
        ax.grid(visible=False, axis="x")
        ax.set_axisbelow(True)
    study.add_figure(
        "errors",
        figure,
        caption="By squash; the other level has that of the paper, whose error is the dotted line.",
    )


CLAIM = Claim(
    name="squash",
    claim="squashing with 0.5 in place of 1 works a little better",
    source="Su Jianlin, “A delicious capsule feast” (essay, 2018), which asks to try them all, and whether "
    "middle layers need one; the first is that of Sabour, Frosst, Hinton 2017",
    data="MNIST, 10,000 training images",
    quick_data="scikit-learn's digits",
    minutes=35,
    run=run,
    judge=judge,
    published="the essay says “a little better” and gives no numbers",
    figure="errors",
)
