"""Figures of the clusterings: all methods side by side, their iterations, and the limit σ → 0."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from torchcaps.experiments.clustering.mixtures import (
    ITERATIONS,
    SMALL_SIGMA,
    Array,
    Clustering,
    Method,
    assign_to_nearest,
    route_points,
)
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    ORANGE,
    PINK,
    add_axes,
    hide_frame,
    new_figure,
)
from torchcaps.experiments.framework.formatting import percent, small_number
from torchcaps.experiments.framework.statistics import normalized_entropy
from torchcaps.experiments.framework.study import Study

COLORS = (BLUE, ORANGE, GREEN, PINK)
X_RANGE, Y_RANGE = (-7.2, 7.8), (-4.9, 5.1)
SETTLED = 0.001  # means that move by less in an iteration have settled


def final_distance(first: list[Clustering], second: list[Clustering]) -> float:
    """The largest distance between the final means of two clusterings."""
    return float(np.linalg.norm(first[-1].mean - second[-1].mean, axis=1).max())


def settled_iteration(steps: list[Clustering]) -> int | str:
    """The iteration after which no mean moves by more than `SETTLED`; `"none"` if the last one still does."""
    moves = [np.linalg.norm(after.mean - before.mean, axis=1).max() for before, after in pairwise(steps)]
    moving = [number for number, move in enumerate(moves, start=2) if move > SETTLED]
    return "none" if moving and moving[-1] == len(steps) else moving[-1] if moving else 1


def draw_panel(ax: Any, points: Array, steps: list[Clustering], title: str) -> None:
    """Draw points in the colors of their clusters, and ellipses at one and two standard deviations."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Ellipse

    last = steps[-1]
    palette = np.array([to_rgb(color) for color in COLORS])
    if np.sqrt(last.covariance.max()) <= SMALL_SIGMA:
        # The ellipses are too small to be visible, so the regions of the clusters are colored instead.
        x, y = np.meshgrid(np.linspace(*X_RANGE, 340), np.linspace(*Y_RANGE, 240))
        regions = assign_to_nearest(np.stack([x, y], -1).reshape(-1, 2), last.mean) @ palette
        ax.imshow(
            regions.reshape(*x.shape, 3),
            extent=(*X_RANGE, *Y_RANGE),
            origin="lower",
            alpha=0.1,
            aspect="auto",
        )
    ax.scatter(*points.T, c=np.clip(last.assignment @ palette, 0, 1), s=9, alpha=0.75, linewidths=0)
    for number, color in enumerate(COLORS):
        values, vectors = np.linalg.eigh(last.covariance[number])
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        center = tuple(last.mean[number])
        for deviations, alpha in ((1, 0.22), (2, 0.10)):
            width, height = 2 * deviations * np.sqrt(values[::-1])
            filled: dict[str, Any] = {"facecolor": color, "alpha": alpha, "linewidth": 0}
            outline: dict[str, Any] = {"fill": False, "edgecolor": color, "linewidth": 0.9}
            for style in (filled, outline):
                ax.add_patch(Ellipse(center, width, height, angle=angle, **style))
        path = np.array([step.mean[number] for step in steps])
        ax.plot(*path.T, color=DARK, linewidth=0.9, alpha=0.6)
        ax.scatter(*path[-1], s=46, color=color, edgecolors="white", linewidths=1.3, zorder=4)
    ax.set(xlim=X_RANGE, ylim=Y_RANGE, xticks=[], yticks=[], aspect="equal")
    hide_frame(ax)
    ax.set_title(title, loc="center", fontsize=11, color=DARK)


def draw_methods(study: Study, points: Array, clusterings: dict[Method, list[Clustering]]) -> None:
    """Draw the final clusters of all methods side by side."""
    figure = new_figure(9.6, 4.9)
    for ax, (method, steps) in zip(add_axes(figure, 2, 3), clusterings.items()):
        draw_panel(ax, points, steps, method.title)
    study.add_figure(
        "methods",
        figure,
        caption="From a Gaussian mixture to k-means, one restriction at a time, with the same points and the "
        "same start. The ellipses are at one and two standard deviations (σ). A point that belongs to "
        "several clusters has a mixed color. Dark lines are the paths of the means. Only a full covariance "
        "can be diagonal in the plane. The final means of the last two panels differ by at most "
        f"{small_number(final_distance(*list(clusterings.values())[-2:]))}.",
    )


def draw_animation(study: Study, points: Array, clusterings: dict[Method, list[Clustering]]) -> None:
    """Draw all methods iteration by iteration, with fewer frames at the end, where little moves."""
    frames = []
    for last in (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, ITERATIONS):
        figure = new_figure(8.4, 4.6)
        for ax, (method, steps) in zip(add_axes(figure, 2, 3), clusterings.items()):
            draw_panel(ax, points, steps[:last], method.title)
        figure.suptitle(f"iteration {last}", x=0.02, ha="left", fontsize=12, color=GRAY)
        frames.append(figure)
    study.add_animation(
        "iterations",
        frames,
        caption="The same as an animation of the routing iterations. Iteration after which no mean moves by "
        f"more than {SETTLED}: "
        + ", ".join(f"{settled_iteration(steps)} ({method.title})" for method, steps in clusterings.items())
        + ".",
        milliseconds=550,
    )


def draw_limit(study: Study, points: Array, start: Array, kmeans: list[Clustering]) -> None:
    """Draw how a mixture with one fixed σ becomes k-means when σ decreases."""
    sigmas = np.geomspace(0.03, 3, 25)
    final = [route_points(points, start, "fixed", ITERATIONS, float(sigma))[-1] for sigma in sigmas]
    distances = [final_distance([each], kmeans) for each in final]
    entropies = [100 * normalized_entropy(torch.from_numpy(each.assignment)) for each in final]
    figure = new_figure(7.6, 3.4)
    left, right = add_axes(figure, 1, 2)
    left.plot(sigmas, np.maximum(distances, 1e-16), color=BLUE, marker="o", markersize=3.5)
    left.set(xscale="log", yscale="log", xlabel="σ", title="distance to the means of k-means")
    right.plot(sigmas, entropies, color=ORANGE, marker="o", markersize=3.5)
    right.set(xscale="log", xlabel="σ", ylabel="%", ylim=(-3, 103), title="entropy of the assignments")
    for ax in (left, right):
        ax.invert_xaxis()
    study.add_figure(
        "limit",
        figure,
        caption="EM routing with one constant σ for all clusters; σ decreases to the right. Left: the "
        f"largest distance to the means of k-means, {small_number(distances[0])} at σ = {sigmas[0]:.2g} and "
        f"{small_number(distances[-1])} at σ = {sigmas[-1]:.2g}. Right: the entropy of the assignments, "
        f"{percent(entropies[0])} and {percent(entropies[-1])}.",
    )
    study.add_number("small σ.entropy (%)", entropies[0])
