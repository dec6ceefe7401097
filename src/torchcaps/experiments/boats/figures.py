"""Figures of boats and houses: scenes with their parse trees, and results by iteration and noise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.data.worlds.boats import PLACE, pose_matrix, scene
from torchcaps.data.worlds.boats.relations import CORNERS
from torchcaps.experiments.boats.parsing import (
    DYNAMIC,
    EM,
    INITIAL,
    ITERATIONS,
    KINDS,
    KMEANS,
    MIXING,
    NEAREST,
    ROUTINGS,
    UNIFORM,
    UNROUTED,
    Parse,
    SceneBatch,
    batch_scenes,
    contested_parts,
    parse,
    route_scenes,
)
from torchcaps.experiments.boats.verdicts import DecoyShares, ambiguous_caption
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    LIGHT,
    ORANGE,
    PINK,
    YELLOW,
    add_axes,
    new_figure,
)
from torchcaps.experiments.framework.study import Study

# Seeds of the scenes in the figures, chosen as clear examples; other scenes are measured.
EXAMPLE_SEEDS = {"single": "13", "crowded": "62", "ambiguous": "3"}
COLORS = {
    EM: BLUE,
    MIXING: GREEN,
    KMEANS: ORANGE,
    DYNAMIC: YELLOW,
    UNIFORM: GRAY,
    INITIAL: PINK,
    NEAREST: DARK,
}

WHOLE_COLORS = (BLUE, ORANGE, GREEN, PINK, YELLOW, "#56b4e9")
SINGLE_PART_COLOR = "#aab3ba"
# Heights of the root and of the wholes of a tree; the image below it ends at 1.
ROOT_HEIGHT, WHOLE_HEIGHT = 2.35, 1.72


def outline(part_type: int, pose: Tensor) -> list[list[float]]:
    """Corners of a part of type `part_type` at a pose `[3, 3]`."""
    corners = torch.tensor([(*corner, 1.0) for corner in CORNERS[part_type]], dtype=torch.float64)
    return (corners @ pose.T)[:, :2].tolist()


def draw_part(ax: Any, part_type: int, pose: Tensor, color: str, **options: Any) -> None:
    """Draw one part; a rectangle has a darker band at its lower side."""
    from matplotlib.patches import Polygon

    style = {
        "facecolor": color,
        "edgecolor": "white",
        "linewidth": 1.0,
        "alpha": 0.9,
        "zorder": 2,
        **options,
    }
    ax.add_patch(Polygon(outline(part_type, pose), closed=True, joinstyle="round", **style))
    if part_type == 0:
        band = torch.tensor([[-1, -0.5, 1], [1, -0.5, 1], [1, -0.22, 1], [-1, -0.22, 1]], dtype=torch.float64)
        style = {"facecolor": DARK, "alpha": 0.28, "linewidth": 0, "zorder": style["zorder"]}
        ax.add_patch(Polygon((band @ pose.T)[:, :2].tolist(), closed=True, **style))


def draw_icon(
    ax: Any, whole_type: int, x: float, y: float, color: str, size: float = 0.16, **options: Any
) -> None:
    """Draw a small upright house or boat."""
    whole = pose_matrix(x, y, 0, size)
    for part in range(len(CORNERS)):
        draw_part(ax, part, whole @ PLACE[whole_type, part], color, zorder=5, **options)


def draw_branch(ax: Any, start: tuple[float, float], end: tuple[float, float], **options: Any) -> None:
    """Draw a curved line of the tree from one point down to another."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    bend = 0.45 * (start[1] - end[1])
    points = [start, (start[0], start[1] - bend), (end[0], end[1] + bend), end]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    ax.add_patch(PathPatch(Path(points, codes), facecolor="none", capstyle="round", **options))


def groups(parsed: Parse) -> list[list[int]]:
    """The groups of parts of the first scene.

    >>> same = torch.tensor([[[True, False, True], [False, True, False], [True, False, True]]])
    >>> groups(Parse(same, torch.zeros(1, 3), torch.zeros(1, 3, 6)))
    [[0, 2], [1]]
    """
    rows = {tuple(row.nonzero()[:, 0].tolist()) for row in parsed.together[0]}
    return [list(row) for row in sorted(rows)]


def prepare_panel(ax: Any, top: float = 2.5) -> None:
    """Prepare a panel for an image from -1 to 1 with a tree above it."""
    from matplotlib.patches import FancyBboxPatch

    ax.add_patch(
        FancyBboxPatch(
            (-1.0, -1.0), 2, 2, boxstyle="round,pad=0.06", facecolor="#f6f7f8", edgecolor=LIGHT, zorder=0
        )
    )
    ax.set(xlim=(-1.12, 1.12), ylim=(-1.12, top), aspect="equal")
    ax.axis("off")


def draw_dot(ax: Any, position: tuple[float, float], color: str, size: float = 18) -> None:
    """Draw the end of a branch."""
    ax.scatter(*position, s=size, color=color, edgecolors="white", linewidths=0.8, zorder=6)


def horizontal_positions(count: int) -> list[float]:
    """Positions of `count` wholes from left to right.

    >>> horizontal_positions(1), horizontal_positions(3)
    ([0.0], [-0.8, 0.0, 0.8])
    """
    return [0.0] if count == 1 else [round(-0.8 + 1.6 * each / (count - 1), 6) for each in range(count)]


def draw_tree(ax: Any, batch: SceneBatch, parsed: Parse) -> None:
    """Draw the first scene of a batch, its parts colored by whole, and the tree above it."""
    prepare_panel(ax)
    center = batch.part_pose[0, :, :2, 2]
    members = groups(parsed)
    wholes = sorted(
        (group for group in members if len(group) > 1), key=lambda group: float(center[group, 0].mean())
    )
    for group in members:
        color = (
            WHOLE_COLORS[wholes.index(group) % len(WHOLE_COLORS)] if group in wholes else SINGLE_PART_COLOR
        )
        for part in group:
            draw_part(ax, int(batch.part_type[part]), batch.part_pose[0, part], color)
    for x, group, color in zip(horizontal_positions(len(wholes)), wholes, WHOLE_COLORS):
        draw_branch(ax, (0, ROOT_HEIGHT), (x, WHOLE_HEIGHT + 0.22), edgecolor=GRAY, linewidth=1.2, zorder=1)
        draw_icon(ax, int(parsed.whole_type[0, group[0]]), x, WHOLE_HEIGHT, color)
        for part in group:
            end = (float(center[part, 0]), float(center[part, 1]))
            draw_branch(
                ax, (x, WHOLE_HEIGHT - 0.28), end, edgecolor=color, linewidth=1.8, alpha=0.85, zorder=4
            )
            draw_dot(ax, end, color)
    draw_dot(ax, (0, ROOT_HEIGHT), DARK, 42)


def draw_interpretations(ax: Any, batch: SceneBatch, parsed: Parse, contested: Tensor) -> None:
    """Draw the first ambiguous scene of a batch with both interpretations; a wider line is a larger coupling.

    Args:
        ax: where to draw.
        batch: the scene.
        parsed: its couplings after an iteration.
        contested: which two parts agree on the decoy, `[P]`.
    """
    prepare_panel(ax, WHOLE_HEIGHT + 0.4)
    center = batch.part_pose[0, :, :2, 2]
    true = int(batch.whole_type[0, 0])
    interpretations = [
        (torch.nonzero(batch.part_whole[0] == whole)[:, 0].tolist(), true, color)
        for whole, color in ((0, BLUE), (1, GREEN))
    ]
    interpretations.sort(key=lambda interpretation: float(center[interpretation[0], 0].mean()))
    interpretations.insert(1, (torch.nonzero(contested)[:, 0].tolist(), 1 - true, ORANGE))
    for part, part_type in enumerate(batch.part_type.tolist()):
        draw_part(ax, part_type, batch.part_pose[0, part], "#c9d0d6")
    for x, (parts, whole_type, color) in zip(horizontal_positions(3), interpretations):
        couplings = [float(parsed.share[0, part, 2 * parts[0] + whole_type]) for part in parts]
        draw_icon(ax, whole_type, x, WHOLE_HEIGHT, color, alpha=0.15 + 0.8 * sum(couplings) / len(couplings))
        for part, coupling in zip(parts, couplings):
            end = (float(center[part, 0]), float(center[part, 1]))
            line = {"linewidth": 0.2 + 3.4 * coupling, "alpha": min(1.0, 0.1 + coupling)}
            style = "dashed" if color == ORANGE else "solid"
            draw_branch(ax, (x, WHOLE_HEIGHT - 0.28), end, edgecolor=color, linestyle=style, zorder=4, **line)
            draw_dot(ax, end, DARK, 10)


def draw_trees(study: Study, noise: float) -> None:
    """Draw one scene of each kind with the parse tree that EM routing finds."""
    figure = new_figure(10.2, 5.0)
    for ax, kind in zip(add_axes(figure, 1, len(KINDS)), KINDS):
        (batch,) = batch_scenes([scene(kind, seed=EXAMPLE_SEEDS[kind])], noise, study.seed)
        draw_tree(ax, batch, parse(route_scenes(batch, ROUTINGS[EM]())[-1], study.seed))
        ax.set_title(kind, loc="center", color=DARK)
    study.add_figure(
        "trees",
        figure,
        caption="Scenes and the parse trees that EM routing finds. Each part is connected to the house or "
        "boat it is assigned to, and has its color; a part that is assigned to no whole is gray. The scenes "
        "were chosen by their seeds as clear examples. Houses and boats are made of the same two parts; they "
        "differ only in the position of the parts relative to each other.",
    )


def draw_ambiguous(study: Study, decoy: DecoyShares, noise: float) -> None:
    """Draw the two interpretations of an ambiguous scene during EM routing, and how each routing decides."""
    figure = new_figure(10.2, 5.9)
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.35, 1])
    (batch,) = batch_scenes([scene("ambiguous", seed=EXAMPLE_SEEDS["ambiguous"])], noise, study.seed)
    steps = route_scenes(batch, ROUTINGS[EM]())
    shown = (1, 2, 3, 4, ITERATIONS)
    for ax, number in zip(add_axes(top, 1, len(shown)), shown):
        draw_interpretations(ax, batch, parse(steps[number - 1]), contested_parts(batch)[0] > 0)
        ax.set_title(f"iteration {number}", loc="center", fontsize=10, color=DARK)
    (ax,) = add_axes(bottom)
    for name, shares in decoy.items():
        iterations = range(1, len(shares) + 1)
        percents = [100 * share for share in shares]
        ax.plot(iterations, percents, color=COLORS[name], marker="o", markersize=4, label=name)
    ax.set(ylim=(-3, 60), xlabel="iteration", ylabel="%", xticks=range(1, ITERATIONS + 1))
    ax.set_title("inner parts in the wrong interpretation", loc="left")
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=4, fontsize=9)
    study.add_figure("ambiguous", figure, caption=ambiguous_caption(decoy))


def draw_noise(study: Study, accuracy: dict[str, Any], noises: list[float]) -> None:
    """Draw the percentage of correct parts against the noise, for each kind of scene."""
    figure = new_figure(10.2, 3.7)
    panels = add_axes(figure, 1, len(KINDS), sharey=True)
    for ax, kind in zip(panels, KINDS):
        for name, color in COLORS.items():
            correct = [accuracy[kind][f"{noise}"][name]["parts"] for noise in noises]
            style = (
                {"linestyle": ":", "linewidth": 1.6}
                if name in UNROUTED
                else {"marker": "o", "markersize": 3.5}
            )
            ax.plot([100 * noise for noise in noises], correct, color=color, label=name, **style)
        ax.set(ylim=(-3, 103), xlabel="noise of the part poses (%)")
        ax.set_title(kind, loc="center")
    panels[0].set_ylabel("parts correct (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    study.add_figure(
        "noise",
        figure,
        caption="How exact the poses must be. Each part is moved, rotated and scaled at random by this "
        "percentage of its size. With more noise, votes for the same whole are as far apart as votes for "
        "different wholes. Dotted: methods without routing.",
    )
