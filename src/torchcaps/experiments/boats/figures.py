"""Scenes of boats and houses with the tree that a routing made of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.data.worlds.boats import PLACE, pose_matrix
from torchcaps.data.worlds.boats.relations import CORNERS
from torchcaps.experiments.boats.parsing import Crowd, Parse
from torchcaps.experiments.framework.figures import BLUE, DARK, GRAY, GREEN, LIGHT, ORANGE, PINK, YELLOW

COLORS = (BLUE, ORANGE, GREEN, PINK, YELLOW, "#56b4e9")
ALONE = "#aab3ba"
ROOT, ROW = 2.35, 1.72  # heights of the tree's root and of the wholes over a picture that ends at 1


def outline(kind: int, pose: Tensor) -> list[list[float]]:
    """Corners of a part of type `kind` at a pose `[3, 3]`."""
    corners = torch.tensor([(*corner, 1.0) for corner in CORNERS[kind]], dtype=torch.float64)
    return (corners @ pose.T)[:, :2].tolist()


def draw_part(ax: Any, kind: int, pose: Tensor, color: str, **options: Any) -> None:
    """One part, filled; a rectangle with the darker band that tells its lower side."""
    from matplotlib.patches import Polygon

    style = {
        "facecolor": color,
        "edgecolor": "white",
        "linewidth": 1.0,
        "alpha": 0.9,
        "zorder": 2,
        **options,
    }
    ax.add_patch(Polygon(outline(kind, pose), closed=True, joinstyle="round", **style))
    if kind == 0:
        band = torch.tensor([[-1, -0.5, 1], [1, -0.5, 1], [1, -0.22, 1], [-1, -0.22, 1]], dtype=torch.float64)
        style = {"facecolor": DARK, "alpha": 0.28, "linewidth": 0, "zorder": style["zorder"]}
        ax.add_patch(Polygon((band @ pose.T)[:, :2].tolist(), closed=True, **style))


def draw_icon(ax: Any, kind: int, x: float, y: float, color: str, size: float = 0.16, **options: Any) -> None:
    """A small house or boat, upright."""
    whole = pose_matrix(x, y, 0, size)
    for part in range(len(CORNERS)):
        draw_part(ax, part, whole @ PLACE[kind, part], color, zorder=5, **options)


def branch(ax: Any, start: tuple[float, float], end: tuple[float, float], **options: Any) -> None:
    """A line that leaves downwards and arrives from above."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    bend = 0.45 * (start[1] - end[1])
    points = [start, (start[0], start[1] - bend), (end[0], end[1] + bend), end]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    ax.add_patch(PathPatch(Path(points, codes), facecolor="none", capstyle="round", **options))


def groups(found: Parse) -> list[list[int]]:
    """Parts of the first scene that were put together, each group once.

    >>> same = torch.tensor([[[True, False, True], [False, True, False], [True, False, True]]])
    >>> groups(Parse(same, torch.zeros(1, 3), torch.zeros(1, 3), torch.zeros(1, 3, 6)))
    [[0, 2], [1]]
    """
    rows = {tuple(row.nonzero()[:, 0].tolist()) for row in found.together[0]}
    return [list(row) for row in sorted(rows)]


def blank(ax: Any, top: float = 2.5) -> None:
    """A panel for a picture from -1 to 1 with a tree over it."""
    from matplotlib.patches import FancyBboxPatch

    ax.add_patch(
        FancyBboxPatch(
            (-1.0, -1.0), 2, 2, boxstyle="round,pad=0.06", facecolor="#f6f7f8", edgecolor=LIGHT, zorder=0
        )
    )
    ax.set(xlim=(-1.12, 1.12), ylim=(-1.12, top), aspect="equal")
    ax.axis("off")


def dot(ax: Any, place: tuple[float, float], color: str, size: float = 18) -> None:
    """The end of a branch."""
    ax.scatter(*place, s=size, color=color, edgecolors="white", linewidths=0.8, zorder=6)


def spread(count: int) -> list[float]:
    """Places from left to right for so many wholes.

    >>> spread(1), spread(3)
    ([0.0], [-0.8, 0.0, 0.8])
    """
    return [0.0] if count == 1 else [round(-0.8 + 1.6 * each / (count - 1), 6) for each in range(count)]


def draw_tree(ax: Any, crowd: Crowd, found: Parse) -> None:
    """The first scene of a crowd, its parts colored by whole, and the tree over it."""
    blank(ax)
    place = crowd.part_pose[0, :, :2, 2]
    members = groups(found)
    wholes = sorted(
        (group for group in members if len(group) > 1), key=lambda group: float(place[group, 0].mean())
    )
    for group in members:
        color = COLORS[wholes.index(group) % len(COLORS)] if group in wholes else ALONE
        for part in group:
            draw_part(ax, int(crowd.part_type[part]), crowd.part_pose[0, part], color)
    for x, group, color in zip(spread(len(wholes)), wholes, COLORS):
        branch(ax, (0, ROOT), (x, ROW + 0.22), edgecolor=GRAY, linewidth=1.2, zorder=1)
        draw_icon(ax, int(found.kind[0, group[0]]), x, ROW, color)
        for part in group:
            end = (float(place[part, 0]), float(place[part, 1]))
            branch(ax, (x, ROW - 0.28), end, edgecolor=color, linewidth=1.8, alpha=0.85, zorder=4)
            dot(ax, end, color)
    dot(ax, (0, ROOT), DARK, 42)


def draw_readings(ax: Any, crowd: Crowd, found: Parse, contested: Tensor) -> None:
    """The first ambiguous scene of a crowd under both readings; a line is as wide as the belief in it.

    Args:
        ax: where to draw.
        crowd: the scene.
        found: what is believed.
        contested: which two parts agree on the decoy, `[P]`.
    """
    blank(ax, ROW + 0.4)
    place = crowd.part_pose[0, :, :2, 2]
    true = int(crowd.part_kind[0, 0])
    readings = [
        (torch.nonzero(crowd.part_whole[0] == whole)[:, 0].tolist(), true, color)
        for whole, color in ((0, BLUE), (1, GREEN))
    ]
    readings.sort(key=lambda reading: float(place[reading[0], 0].mean()))
    readings.insert(1, (torch.nonzero(contested)[:, 0].tolist(), 1 - true, ORANGE))
    for part, kind in enumerate(crowd.part_type.tolist()):
        draw_part(ax, kind, crowd.part_pose[0, part], "#c9d0d6")
    for x, (parts, kind, color) in zip(spread(3), readings):
        believed = [float(found.belief[0, part, 2 * parts[0] + kind]) for part in parts]
        draw_icon(ax, kind, x, ROW, color, alpha=0.15 + 0.8 * sum(believed) / len(believed))
        for part, belief in zip(parts, believed):
            end = (float(place[part, 0]), float(place[part, 1]))
            line = {"linewidth": 0.2 + 3.4 * belief, "alpha": min(1.0, 0.1 + belief)}
            style = "dashed" if color == ORANGE else "solid"
            branch(ax, (x, ROW - 0.28), end, edgecolor=color, linestyle=style, zorder=4, **line)
            dot(ax, end, DARK, 10)
