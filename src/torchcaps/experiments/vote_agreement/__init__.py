from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import BLUE, DARK, GRAY, ORANGE, add_axes, new_figure
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.vote_agreement.verdicts import ROUTED, UNIFORM, judge
from torchcaps.models import Model
from torchcaps.training import Recipe, default_recipe, load_recipe, predict

ITERATIONS = {ROUTED: 3, UNIFORM: 1}
CASES = ("right", "wrong")
BINS = 40
MOST = 400  # images of each case that are looked at closely


class Clusters(NamedTuple):
    """The votes for every class about its mean, after one iteration.

    Attributes:
        distance: of each vote to the mean of its class, in units of the votes' mean length, `[B, I, J]`.
        weight: how much of each vote the class was assigned, R a, as shares of the image's, `[B, I, J]`.
        activation: of the classes, `[B, J]`.
    """

    distance: Tensor
    weight: Tensor
    activation: Tensor


def run(study: Study) -> None:
    """Look at the votes for the classes in a network that routes and in one that does not."""
    images = load_images(study)
    networks = {name: network(study, name) for name in ITERATIONS}
    found: dict[str, dict[str, Any]] = {}
    for name, model in networks.items():
        found[name] = study.cached(f"votes in {name}", partial(survey, model, images))
        study.add_number(f"{name}.accuracy", found[name]["accuracy"])
    rows: list[list[Any]] = []
    for name, survey_of in found.items():
        for case in CASES:
            of_case = survey_of[case]
            for number, step in enumerate(of_case["steps"], start=1):
                rows.append(
                    [f"{name}, {case}", of_case["count"], number, step["own"], step["rival"], step["share"]]
                )
                for key, value in step.items():
                    study.add_number(f"{name}.{case}.{number}.{key}", value)
    accuracies = " and ".join(f"{each['accuracy']:.1f} % ({name})" for name, each in found.items())
    study.add_table(
        "How tight the clusters are",
        ["network, cases", "images", "iteration", "distance, true class", "distance, rival", "votes won (%)"],
        rows,
        caption="Mean distance of the votes to the mean of the true class and of its strongest rival, "
        "weighted by assignment, in units of the votes' mean length; and the share of all votes that the "
        f"true class is given. In iteration 1 every vote is shared evenly. Test accuracy: {accuracies}.",
    )
    draw_average(study, found[ROUTED])
    draw_examples(study, networks[ROUTED], images, found[ROUTED]["limit"])
    judge(study, found, len(images))


def load_images(study: Study) -> ImageSet:
    """Test digits as the networks want them."""
    return load("digits", "test", size=20) if study.quick else load("mnist", "test", data_dir=study.data_dir)


def network(study: Study, name: str) -> Model:
    """The matrix capsule network, with three iterations or with one, which is no routing."""
    if study.quick:
        recipe = default_recipe("matrix_capsnet_small", "digits").override(
            [
                'schedule.name="cosine"',
                "schedule.warmup_steps=45",
                "training.epochs=12",
                "training.batch_size=32",
            ]
        )
    else:
        recipe = load_recipe("mnist-matrix-capsnet-small")
        if name == ROUTED:
            try:
                return study.pretrained("matrix_capsnet_small", "mnist")
            except ValueError as missing:
                study.log(f"{missing} It is trained instead.")
    return study.train("routed" if name == ROUTED else "uniform", with_iterations(recipe, ITERATIONS[name]))


def with_iterations(recipe: Recipe, iterations: int) -> Recipe:
    """The same training with so many routing iterations."""
    return recipe.override([f"model.options.iterations={iterations}"])


@torch.no_grad()
def look(model: Model, images: Tensor) -> list[Clusters]:
    """The votes for the classes after each iteration, from a trace of images `[B, C, H, W]`."""
    *_, below, classes = model.routing_history(images)
    child = below.iterations[-1].activation.flatten(1).unsqueeze(-1)  # [B, I, 1]
    vote = classes.votes[:, 0]
    unit = vote.norm(dim=-1).mean((1, 2))[:, None, None]
    steps = []
    for step in classes.iterations:
        assert step.coupling is not None
        distance = (vote - step.pose.unsqueeze(1)).norm(dim=-1) / unit
        weight = step.coupling * child
        steps.append(Clusters(distance, weight / weight.sum((1, 2), keepdim=True), step.activation))
    return steps


def survey(model: Model, images: ImageSet) -> dict[str, Any]:
    """Accuracy, and for the right and the wrong cases the mean of each figure after each iteration."""
    pixels = images.images.float() / 255
    scores = predict(model, pixels).scores
    right = scores.argmax(1) == images.labels
    found: dict[str, Any] = {"accuracy": 100 * float(right.float().mean())}
    found["limit"] = limit = reach(look(model, pixels[:25])[0])
    for case, chosen in zip(CASES, (right, ~right)):
        which = chosen.nonzero()[:, 0][:MOST]
        found[case] = {"count": len(which), "steps": []}
        if len(which):
            parts = [
                [summary(step, images.labels[some], limit) for step in look(model, pixels[some])]
                for some in which.split(25)
            ]
            found[case]["steps"] = [
                {name: torch.cat([part[number][name] for part in parts]).mean().item() for name in MEASURES}
                for number in range(len(parts[0]))
            ]
            found[case]["histograms"] = [
                torch.cat([part[number]["histogram"] for part in parts]).mean(0).tolist()
                for number in range(len(parts[0]))
            ]
    return found


MEASURES = ("own", "rival", "share")


def reach(step: Clusters) -> float:
    """A distance that 97 % of the votes are within: where the histograms end."""
    return round(float(step.distance.flatten()[: 2**20].quantile(0.97)), 3)


def summary(step: Clusters, labels: Tensor, limit: float) -> dict[str, Tensor]:
    """Per image: distance in the true class and in its strongest rival, share won in %, and histograms.

    Histograms of distances up to `limit` are `[B, 2, BINS]`: of the true class, and of all others together.
    """
    rows = torch.arange(len(labels))
    mass = step.weight.sum(1)
    tight = (step.weight * step.distance).sum(1) / mass.clamp(min=1e-12)
    others = step.activation.scatter(1, labels[:, None], -1)
    rival = others.argmax(1)
    place = (step.distance / limit * BINS).long()
    counted = torch.where(place < BINS, step.weight, 0.0)  # farther ones fall out of the picture
    per_class = torch.zeros(len(labels), BINS, step.weight.shape[2])
    per_class.scatter_add_(1, place.clamp(max=BINS - 1), counted)
    own = per_class[rows, :, labels]
    return {
        "own": tight[rows, labels],
        "rival": tight[rows, rival],
        "share": 100 * mass[rows, labels],
        "histogram": torch.stack([own, per_class.sum(2) - own], 1),
    }


def stairs(ax: Any, own: Tensor, rest: Tensor, limit: float) -> None:
    """Two histograms in one panel: the votes of one class, filled, before those of all others."""
    edges = torch.linspace(0, limit, BINS + 1).tolist()
    ax.stairs((100 * rest).tolist(), edges, fill=True, color=GRAY, alpha=0.45, linewidth=0)
    ax.stairs((100 * own).tolist(), edges, fill=True, color=BLUE, alpha=0.85, linewidth=0)
    ax.set(xlim=(0, limit), yticks=[])
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)


def draw_average(study: Study, found: dict[str, Any]) -> None:
    """The mean histogram of right and of wrong cases after each iteration."""
    present = [case for case in CASES if found[case]["count"]]
    figure = new_figure(9.6, 1.2 + 2.0 * len(present))
    count = len(found["right"]["steps"])
    axes = add_axes(figure, len(present), count, sharex=True, sharey="row")
    for row, case in enumerate(present):
        for column, (own, rest) in enumerate(found[case]["histograms"]):
            ax = axes[row * count + column]
            stairs(ax, torch.tensor(own), torch.tensor(rest), found["limit"])
            step = found[case]["steps"][column]
            ax.axvline(step["own"], color=BLUE, linewidth=1.2, linestyle="--")
            ax.text(
                0.97, 0.9, f"{step['share']:.0f} % of the votes", transform=ax.transAxes,
                ha="right", color=BLUE, fontsize=9,
            )  # fmt: skip
            if row == 0:
                ax.set_title(f"iteration {column + 1}", loc="center", color=DARK)
            if column == 0:
                ax.set_ylabel(f"{case}\n({found[case]['count']} images)", color=DARK)
            if row == len(present) - 1:
                ax.set_xlabel("distance to the mean")
    study.add_figure(
        "average",
        figure,
        caption="Distances of the votes to the mean of their class, weighted by assignment, averaged over "
        "test images whose answer is right and wrong: the true class in blue, its mean distance dashed, all "
        "nine others together in gray.",
    )


def draw_examples(study: Study, model: Model, images: ImageSet, limit: float) -> None:
    """Two digits read rightly and one that is not, as in the paper's figure."""
    pixels = images.images.float() / 255
    scores = predict(model, pixels).scores
    guess = scores.argmax(1)
    sure = scores.gather(1, images.labels[:, None])[:, 0]
    right, wrong = ((guess == images.labels).nonzero()[:, 0], (guess != images.labels).nonzero()[:, 0])
    chosen = [int(right[sure[right].argsort(descending=True)[k]]) for k in (0, len(right) // 3)]
    chosen += [int(wrong[scores[wrong].amax(1).argmax()])] if len(wrong) else []
    figure = new_figure(9.8, 2.05 * len(chosen) + 0.3)
    count = len(model.routing_history(pixels[:1])[-1].iterations)
    axes = add_axes(figure, len(chosen), 1 + count, width_ratios=[0.62] + [1] * count)
    for row, number in enumerate(chosen):
        first, *panels = axes[row * (1 + count) : (row + 1) * (1 + count)]
        label, said = int(images.labels[number]), int(guess[number])
        first.imshow(pixels[number, 0], cmap="gray_r", interpolation="nearest")
        first.axis("off")
        first.set_title(f"a {label}, read as {said}", loc="center", fontsize=10, color=DARK)
        steps = look(model, pixels[number : number + 1])
        tallest = 0.0
        for column, (ax, step) in enumerate(zip(panels, steps)):
            tallest = max(tallest, draw_classes(ax, step, label, said, limit))
            if row == 0:
                ax.set_title(f"iteration {column + 1}", loc="center", color=DARK)
            if row == len(chosen) - 1:
                ax.set_xlabel("distance to the mean")
        for ax in panels:
            ax.set_ylim(0, 1.08 * tallest)
    study.add_figure(
        "examples",
        figure,
        caption="Single digits, as in Figure 2 of the paper: the votes for each of the classes about "
        "their mean, weighted by assignment; the true class in blue, the one the network names instead in "
        "orange, others in gray. The first is the surest of those read rightly"
        + (", the last the surest failure." if len(wrong) else "."),
    )


def draw_classes(ax: Any, step: Clusters, label: int, said: int, limit: float) -> float:
    """Smoothed histograms of all classes of one image in one panel; returns the height of the tallest."""
    places = torch.linspace(0, limit, 240)
    order = [each for each in range(step.activation.shape[1]) if each not in (label, said)]
    tallest = 0.0
    for each in [*order, *dict.fromkeys((said, label))]:
        curve = smoothed(step.distance[0, :, each], step.weight[0, :, each], places)
        tallest = max(tallest, float(curve.max()))
        color = BLUE if each == label else ORANGE if each == said else GRAY
        ax.plot(places, curve, color=color, linewidth=0.8 if each in order else 1.6)
        if each not in order:
            ax.fill_between(places, curve, color=color, alpha=0.3, linewidth=0)
    ax.set(xlim=(0, limit), yticks=[])
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    return tallest


def smoothed(values: Tensor, weight: Tensor, places: Tensor) -> Tensor:
    """Weighted density of values at the given places, each value a bell of a fiftieth of their range.

    >>> curve = smoothed(torch.tensor([0.5]), torch.tensor([2.0]), torch.linspace(0, 1, 101))
    >>> int(curve.argmax()), round(float(curve.sum()) / 100, 3)
    (50, 2.0)
    """
    width = float(places[-1] - places[0]) / 50
    bells = torch.exp(-0.5 * ((places[:, None] - values) / width).square()) / (width * math.sqrt(2 * math.pi))
    return bells @ weight


CLAIM = Claim(
    name="votes",
    claim="routing finds tight clusters among the votes",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (ICLR 2018), Figure 2",
    data="MNIST",
    quick_data="scikit-learn's digits",
    minutes=45,
    run=run,
)
