from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import (
    BLUE,
    ORANGE,
    add_axes,
    color_overlay,
    new_figure,
    tile_images,
)
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.perturb.ink import PROPERTIES, ink_properties
from torchcaps.models import Model
from torchcaps.training import evaluate, load_recipe, predict

STEPS = torch.linspace(-0.25, 0.25, 11)
DYNAMIC, UNIFORM = "dynamic routing", "uniform routing"
AXES, RANDOM = "dimensions", "random directions"
PER_DIGIT = 20
ENDS = (ORANGE, BLUE)
HEADINGS = ["change (%)", "weakest (%)", "straight (%)", "alike (%)", "single-minded (%)"]
UNIFORM_EPOCHS = 5


def run(study: Study) -> None:
    """Move the right class capsule's pose along one direction at a time, draw it, measure what changed."""
    single = test_images(study)
    chosen = some_of_each(single.labels, PER_DIGIT)
    images, labels = single.images[chosen].float() / 255, single.labels[chosen]
    found: dict[tuple[str, str], dict[str, float]] = {}
    errors: dict[str, float] = {}
    for name, model in networks(study).items():
        capsules = predict(model, images).capsules
        assert capsules is not None
        wrong = study.cached(f"error with {name}", lambda: {"error": 100 * evaluate(model, single).error})  # noqa: B023
        errors[name] = wrong["error"]
        study.add_number(f"{name}.error", errors[name])
        for what, directions in bases(capsules.pose.shape[2], study.seed).items():
            drawn = moved(model, capsules, labels, directions)
            found[name, what] = effect(drawn, labels)
            for key, value in found[name, what].items():
                study.add_number(f"{name}.{what}.{key}", value)
            if (name, what) == (DYNAMIC, AXES):
                draw_all_digits(study, drawn, labels)
                for label in labels.unique().tolist():
                    draw_one_digit(study, drawn, labels, label)
    study.add_table(
        "What moving a capsule by ±0.25 does to its drawing",
        ["network", "moved along", "test error (%)", *HEADINGS],
        [[name, what, errors[name], *values.values()] for (name, what), values in found.items()],
        caption=f"Mean over {len(images)} test digits, each drawn from the capsule of its own class. Change: "
        "root mean square over the pixels between the two ends, full ink being 100; weakest: the direction "
        "that changes least. Straight: the way from end to end as a share of the way through the drawings "
        "between, 100 % if they lie on a line. Alike: how far a direction does the same to all digits of a "
        "class. Single-minded: the share of the change that lies in one property alone ("
        + ", ".join(PROPERTIES)
        + "). The paper shows such drawings and names what it sees; it gives no numbers."
        + ("" if study.quick else f" The network with uniform routing had {UNIFORM_EPOCHS} epochs only."),
    )
    give_verdicts(study, found)


def give_verdicts(study: Study, found: dict[tuple[str, str], dict[str, float]]) -> None:
    """What the numbers say of the claim, and of the dimensions as against any other directions."""
    axes, random, unrouted = found[DYNAMIC, AXES], found[DYNAMIC, RANDOM], found[UNIFORM, AXES]
    study.add_verdict(
        axes["alike"] > 50 and axes["straight"] > 50 and axes["weakest"] > 1,
        f"Moving one dimension changes the drawing smoothly ({axes['straight']:.0f} % straight) and in much "
        f"the same way for all digits of a class ({axes['alike']:.0f} % alike); even the idlest dimension "
        f"changes it by {axes['weakest']:.1f} %.",
    )
    special = axes["single"] > random["single"] + 10
    study.add_verdict(
        special,
        ("A dimension" if special else "No dimension")
        + f" is a property of its own: {axes['single']:.0f} % of its change lies in its foremost property, "
        f"against {random['single']:.0f} % for random directions through the same capsules, and "
        f"{unrouted['single']:.0f} % for the dimensions of a network without routing."
        + ("" if special else " Poses have meaning; their axes have no more of it than any other direction."),
        question="Are the dimensions more than any other directions?",
    )


def networks(study: Study) -> dict[str, Model]:
    """The small CapsNet with its decoder, and the same with uniform coupling."""
    recipe = load_recipe("mnist-capsnet-small")
    uniform = ['model.options.routing="uniform"']
    if not study.quick:
        return {
            DYNAMIC: study.pretrained_or_train("dynamic", recipe),
            UNIFORM: study.train("uniform", recipe.override([*uniform, f"training.epochs={UNIFORM_EPOCHS}"])),
        }
    # Ten times the paper's weight on drawing, since the decoder has so little time to learn.
    recipe = recipe.override(
        [
            'data.name="digits"',
            "data.options.size=24",
            "model.options.channels=32",
            "loss.reconstruction=0.005",
            "optimizer.lr=2e-3",
            "training.batch_size=32",
            "training.epochs=24",
            "training.ema_decay=0.99",
        ]
    )
    return {
        DYNAMIC: study.train("dynamic", recipe),
        UNIFORM: study.train("uniform", recipe.override(uniform)),
    }


def test_images(study: Study) -> ImageSet:
    """Single test digits."""
    if study.quick:
        return load("digits", "test", size=24)
    return load("mnist", "test", data_dir=study.data_dir)


def some_of_each(labels: Tensor, count: int) -> Tensor:
    """Indices of the first `count` images of each class, class by class.

    >>> some_of_each(torch.tensor([1, 0, 1, 1, 0]), 2)
    tensor([1, 4, 0, 2])
    """
    return torch.cat([(labels == label).nonzero()[:count, 0] for label in labels.unique()])


def bases(dim: int, seed: int) -> dict[str, Tensor]:
    """The axes of the pose, and as many orthogonal directions of no meaning: rows of `[D, D]`."""
    generator = torch.Generator().manual_seed(seed)
    random, _ = torch.linalg.qr(torch.randn(dim, dim, generator=generator))
    return {AXES: torch.eye(dim), RANDOM: random}


@torch.no_grad()
def moved(model: Model, capsules: Capsules, labels: Tensor, directions: Tensor) -> Tensor:
    """Draw each sample's own capsule, moved by S steps along K directions `[K, D]`: `[N, K, S, H, W]`."""
    count, place = len(labels), torch.arange(len(labels))
    drawn = []
    for direction in directions:
        for step in STEPS:
            pose = capsules.pose.clone()
            pose[place, labels] += step * direction
            drawn.append(model.reconstruct(Capsules(pose, capsules.activation), labels)[:, 0])
    return torch.stack(drawn, dim=1).view(count, len(directions), len(STEPS), *drawn[0].shape[1:])


def effect(drawn: Tensor, labels: Tensor) -> dict[str, float]:
    """What moving did, in percent, over all directions and digits; the columns of the table.

    Args:
        drawn: `[N, K, S, H, W]` as `moved` gives it.
        labels: `[N]`.
    """
    ends = drawn[:, :, -1] - drawn[:, :, 0]
    change = ends.square().mean((2, 3)).sqrt()
    way = drawn.diff(dim=2).square().mean((3, 4)).sqrt().sum(2)
    shifts = property_changes(drawn, labels)
    alike, single = [], []
    for label in labels.unique():
        mine = shifts[labels == label]
        typical = mine.mean(0)
        alike.append(typical.square().sum(1) / mine.square().sum(2).mean(0).clamp(min=1e-12))
        single.append(typical.square().amax(1) / typical.square().sum(1).clamp(min=1e-12))
    return {
        "change": 100 * float(change.mean()),
        "weakest": 100 * float(change.mean(0).min()),
        "straight": 100 * float((change / way.clamp(min=1e-12)).mean()),
        "alike": 100 * float(torch.cat(alike).mean()),
        "single": 100 * float(torch.cat(single).mean()),
    }


def property_changes(drawn: Tensor, labels: Tensor) -> Tensor:
    """Change of each property from end to end, in units of its spread within a class: `[N, K, 6]`."""
    count, directions, steps = drawn.shape[:3]
    values = ink_properties(drawn.flatten(0, 2)).view(count, directions, steps, len(PROPERTIES))
    still = values[:, 0, steps // 2]
    within = torch.stack([still[labels == label].std(0) for label in labels.unique()]).square().mean(0).sqrt()
    return (values[:, :, -1] - values[:, :, 0]) / within.clamp(min=1e-12)


def draw_one_digit(study: Study, drawn: Tensor, labels: Tensor, label: int) -> None:
    """One digit large, with the property that each dimension changes most."""
    shifts = property_changes(drawn, labels)[labels == label].mean(0)
    example = drawn[labels == label][0]
    dims, steps, height, width = example.shape
    both = color_overlay(example[:, :1], example[:, -1:], colors=ENDS)
    figure = new_figure(6.2, 7.0)
    ax = add_axes(figure)[0]
    ax.imshow(tile_images(np.concatenate([color_overlay(example), both], axis=1)), interpolation="nearest")
    names = []
    for number, shift in enumerate(shifts, start=1):
        most = int(shift.abs().argmax())
        names.append(f"{PROPERTIES[most]} {float(shift[most]):+.1f}σ  {number:2}".replace("-", "−"))
    ax.set_yticks([(height + 1) * row + height / 2 for row in range(dims)], names, fontsize=8)
    over = [""] * steps
    over[0], over[steps // 2], over[-1] = "−0.25", "0", "0.25"
    places = [(width + 1) * column + width / 2 for column in range(steps + 1)]
    ax.set_xticks(places, [*over, "ends"], fontsize=8)
    ax.xaxis.tick_top()
    plain(ax)
    study.add_figure(
        f"digit_{label}",
        figure,
        caption=f"A test digit {label} drawn from its capsule; each row moves one dimension from −0.25 to "
        "0.25. At the right both ends in one picture: orange where only the first has ink, blue where only "
        "the last has. At the left the property that the dimension changes most in this class, from end to "
        "end, in units of its usual spread within a class (σ).",
    )


def draw_all_digits(study: Study, drawn: Tensor, labels: Tensor) -> None:
    """All ten classes, one example each, all dimensions."""
    examples = torch.stack([drawn[labels == label][0] for label in labels.unique()])
    classes, dims, _, height, width = examples.shape
    figure = new_figure(6.8, 4.5)
    ax = add_axes(figure)[0]
    ax.imshow(
        tile_images(color_overlay(examples[:, :, 0], examples[:, :, -1], colors=ENDS)),
        interpolation="nearest",
    )
    ax.set_yticks([(height + 1) * row + height / 2 for row in range(classes)], labels.unique().tolist())
    places = [(width + 1) * column + width / 2 for column in range(dims)]
    ax.set_xticks(places, [str(number) for number in range(1, dims + 1)], fontsize=8)
    ax.xaxis.tick_top()
    plain(ax)
    study.add_figure(
        "all_digits",
        figure,
        caption="One digit of each class, in each column another dimension: drawn with it moved by −0.25 "
        "(orange) and by 0.25 (blue), dark where both have ink. Strokes lean, widen, move or "
        "thicken, and the class stays. A column does not mean the same in two rows: each class has its own "
        "capsule.",
    )


def plain(ax: Any) -> None:
    """Only the picture: no frame, no grid, no ticks."""
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


CLAIM = Claim(
    name="perturb",
    claim="each dimension of a class capsule means something",
    source="Sabour, Frosst, Hinton, “Dynamic Routing Between Capsules” (2017), section 5.1 and figure 4",
    data="MNIST",
    quick_data="scikit-learn's digits",
    minutes=12,
    run=run,
)
