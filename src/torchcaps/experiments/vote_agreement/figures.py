"""Figures of the votes: mean histograms of their distances, and three single images."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import BLUE, DARK, GRAY, ORANGE, add_axes, new_figure
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.vote_agreement.clusters import BINS, CASES, VoteClusters, vote_clusters
from torchcaps.models import Model
from torchcaps.training import predict


def draw_histograms(ax: Any, parts: list[list[float]], limit: float) -> None:
    """Draw three histograms in one panel: the true class in front of its rival and of all others."""
    edges = torch.linspace(0, limit, BINS + 1).tolist()
    own, rival, others = ([100 * value for value in part] for part in parts)
    ax.stairs(others, edges, fill=True, color=GRAY, alpha=0.4, linewidth=0)
    ax.stairs(rival, edges, fill=True, color=ORANGE, alpha=0.5, linewidth=0)
    ax.stairs(own, edges, fill=True, color=BLUE, alpha=0.75, linewidth=0)
    format_panel(ax, limit)


def format_panel(ax: Any, limit: float) -> None:
    """Set the range of the distances; the vertical axis has no labels."""
    ax.set(xlim=(0, limit), yticks=[])
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)


CAPTIONS = {
    "clipped": "Distances of the votes from the mean of their class, weighted by assignment, averaged over "
    "correctly and over wrongly classified test images. Blue: the true class, with its mean distance (dashed "
    "line) and its share of all votes. Orange: the most active other class. Gray: all other classes. The "
    "largest distances are cut off, as in Figure 2 of the paper.",
    "complete": "The same without clipping, as in the appendix of the paper.",
}


def draw_average(study: Study, results: dict[str, Any], kind: str) -> None:
    """Draw the mean histograms of correct and of wrong images after each iteration, clipped or complete."""
    cases = [case for case in CASES if results[case]["count"]]
    figure = new_figure(9.6, 1.2 + 2.0 * len(cases))
    count = len(results["correct"]["steps"])
    panels = add_axes(figure, len(cases), count, sharex=True, sharey="row")
    for row, case in enumerate(cases):
        for column, parts in enumerate(results[case][kind]):
            ax = panels[row * count + column]
            draw_histograms(ax, parts, results["limits"][kind])
            step = results[case]["steps"][column]
            ax.axvline(step["own"], color=BLUE, linewidth=1.2, linestyle="--")
            label = f"{percent(step['share'])} of the votes"
            ax.text(0.97, 0.9, label, transform=ax.transAxes, ha="right", color=BLUE, fontsize=9)
            if row == 0:
                ax.set_title(f"iteration {column + 1}", loc="center", color=DARK)
            if column == 0:
                ax.set_ylabel(f"{case}\n({results[case]['count']} images)", color=DARK)
            if row == len(cases) - 1:
                ax.set_xlabel("distance from the mean")
    study.add_figure("average" if kind == "clipped" else kind, figure, caption=CAPTIONS[kind])


def draw_examples(study: Study, model: Model, images: ImageSet, pixels: Tensor, limit: float) -> None:
    """Draw two correctly classified images and a wrong one, as in the figure of the paper.

    Args:
        study: gets the figure.
        model: the network.
        images: test images, to show.
        pixels: the same as the network takes them.
        limit: end of the histograms.
    """
    scores = predict(model, pixels).scores
    guess = scores.argmax(1)
    true_score = scores.gather(1, images.labels[:, None])[:, 0]
    correct, wrong = ((guess == images.labels).nonzero()[:, 0], (guess != images.labels).nonzero()[:, 0])
    ranked = correct[true_score[correct].argsort(descending=True)]
    chosen = [int(ranked[0]), int(ranked[len(correct) // 3])]
    chosen += [int(wrong[scores[wrong].amax(1).argmax()])] if len(wrong) else []
    figure = new_figure(9.8, 2.05 * len(chosen) + 0.3)
    count = len(model.routing_history(pixels[:1])[-1].iterations)
    axes = add_axes(figure, len(chosen), 1 + count, width_ratios=[0.62] + [1] * count)
    for row, number in enumerate(chosen):
        first, *panels = axes[row * (1 + count) : (row + 1) * (1 + count)]
        label, predicted = int(images.labels[number]), int(guess[number])
        colors = "gray_r" if study.quick else "gray"
        first.imshow(images.images[number, 0], cmap=colors, interpolation="nearest")
        first.axis("off")
        names = images.classes[label], images.classes[predicted]
        first.set_title("{}, classified\nas {}".format(*names), loc="center", fontsize=9, color=DARK)
        steps = vote_clusters(model, pixels[number : number + 1])
        tallest = 0.0
        for column, (ax, step) in enumerate(zip(panels, steps)):
            tallest = max(tallest, draw_classes(ax, step, label, predicted, limit))
            if row == 0:
                ax.set_title(f"iteration {column + 1}", loc="center", color=DARK)
            if row == len(chosen) - 1:
                ax.set_xlabel("distance from the mean")
        for ax in panels:
            ax.set_ylim(0, 1.08 * tallest)
    study.add_figure(
        "examples",
        figure,
        caption="Single images, as in Figure 2 of the paper: distance of the votes for each class from their "
        "mean, weighted by assignment. Blue: the true class. Orange: the class that the network chooses "
        "instead. Gray: other classes. The first image is the correct one with the highest score"
        + (", the last is the wrong one with the highest score." if len(wrong) else "."),
    )


def draw_classes(ax: Any, step: VoteClusters, label: int, predicted: int, limit: float) -> float:
    """Draw smoothed histograms of all classes of one image in one panel; returns the largest height."""
    distances = torch.linspace(0, limit, 240)
    others = [each for each in range(step.activation.shape[1]) if each not in (label, predicted)]
    tallest = 0.0
    for each in [*others, *dict.fromkeys((predicted, label))]:
        curve = smooth_histogram(step.distance[0, :, each], step.weight[0, :, each], distances)
        tallest = max(tallest, float(curve.max()))
        color = BLUE if each == label else ORANGE if each == predicted else GRAY
        ax.plot(distances, curve, color=color, linewidth=0.8 if each in others else 1.6)
        if each not in others:
            ax.fill_between(distances, curve, color=color, alpha=0.3, linewidth=0)
    format_panel(ax, limit)
    return tallest


def smooth_histogram(values: Tensor, weight: Tensor, points: Tensor) -> Tensor:
    """Weighted density of values at some points, by a Gaussian kernel of 1/50 of the range of the points.

    >>> curve = smooth_histogram(torch.tensor([0.5]), torch.tensor([2.0]), torch.linspace(0, 1, 101))
    >>> int(curve.argmax()), round(float(curve.sum()) / 100, 3)
    (50, 2.0)
    """
    width = float(points[-1] - points[0]) / 50
    kernel = torch.exp(-0.5 * ((points[:, None] - values) / width).square()) / (
        width * math.sqrt(2 * math.pi)
    )
    return kernel @ weight
