"""A parse tree as a figure: what was found, over the image, and the tree beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps._checks import check_tensor
from torchcaps._extras import require
from torchcaps.parsing.tree import Node, ParseTree, Rectangle

# The colors of Okabe and Ito, which people with any color vision can tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DARK, GRAY = "#22303c", "#6b7680"
# Inches: the image, the tree, one row of the tree, one step to the right.
IMAGE, TREE, ROW, STEP = 3.6, 4.6, 0.31, 0.26
FONT = 13
# Rows of the tree; levels that do not fit are left out.
MAX_ROWS = 44
# Receptive fields that are drawn for each class.
MAX_FIELDS = 5


def draw_tree(tree: ParseTree, image: Tensor | None = None) -> Any:
    """A matplotlib figure of a tree; see `ParseTree.draw`."""
    require("matplotlib", extra="figures", purpose="drawing a parse tree")
    canvas = require("matplotlib.backends.backend_agg", extra="figures", purpose="drawing a parse tree")
    figures = require("matplotlib.figure", extra="figures", purpose="drawing a parse tree")
    picture = _pixels(tree, image)
    colors = _colors(tree)
    rows = _rows(tree)
    height, width = tree.size
    side = IMAGE * min(1.6, max(0.6, height / width))
    figure = figures.Figure(figsize=(IMAGE + TREE + 0.2, max(side, ROW * (len(rows) + 1)) + 0.2), dpi=160)
    canvas.FigureCanvasAgg(figure)
    whole_width, whole_height = figure.get_size_inches()
    left = figure.add_axes(
        (0.1 / whole_width, 1 - (side + 0.1) / whole_height, IMAGE / whole_width, side / whole_height)
    )
    left.imshow(picture, extent=(0, width, height, 0), interpolation="nearest")
    left.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])
    left.spines[:].set_visible(False)
    _draw_found(left, tree, colors)
    inches = whole_height - 0.2
    right = figure.add_axes(
        ((IMAGE + 0.25) / whole_width, 0.1 / whole_height, (TREE - 0.1) / whole_width, inches / whole_height)
    )
    right.set(xlim=(0, TREE - 0.1), ylim=(inches, 0))
    right.axis("off")
    _draw_rows(right, rows, colors)
    return figure


def _pixels(tree: ParseTree, image: Tensor | None) -> np.ndarray:
    if image is None:
        image = tree.image
    if image is None:
        return np.full((*tree.size, 3), 0.93)
    if not isinstance(image, Tensor):
        raise ValueError(f"image must be a tensor [C, H, W], got {type(image).__name__}")
    pixels = image.detach().cpu().float()
    check_tensor("image", pixels, "C H W")
    if image.dtype == torch.uint8:
        pixels = pixels / 255
    elif float(pixels.min()) < 0 or float(pixels.max()) > 1:  # standardized
        low, high = pixels.min(), pixels.max()
        pixels = (pixels - low) / (high - low).clamp(min=1e-12)
    pixels = pixels if len(pixels) == 3 else pixels[:1].expand(3, -1, -1)  # the left image of a stereo pair
    result: np.ndarray = pixels.permute(1, 2, 0).numpy()
    return result


def _colors(tree: ParseTree) -> dict[int, str]:
    """One color for each whole, with its parts; gray for groups and loose parts."""
    colors = {id(node): GRAY for node in tree.nodes()}
    groups = [node for node in tree.roots if node.level == "group"]
    wholes = [whole for group in groups for whole in group.children]
    wholes += [node for node in tree.roots if node.level != "group"]
    for number, whole in enumerate(wholes):
        for node in whole.walk():
            colors[id(node)] = COLORS[number % len(COLORS)]
    return colors


def _draw_found(axes: Any, tree: ParseTree, colors: dict[int, str]) -> None:
    labels = []
    left, top, right, bottom = tree.seen or (0, 0, tree.size[1], tree.size[0])
    seen = (left, right, bottom, top)
    fields: dict[str, int] = {}
    for node in tree.nodes():
        color = colors[id(node)]
        if node.children and node.mask is not None and node.level != "group":
            _draw_mask(axes, node.mask, color, seen)
        if node.pixels and not node.children:
            _draw_frame(axes, node, color)
        elif node.box is not None and node.level != "part":
            field = not node.children
            if not field or fields.setdefault(color, 0) < MAX_FIELDS:
                _draw_box(axes, node, color, dashed=not field)
                fields[color] = fields.get(color, 0) + field
        if node.children and (node.pixels or node.mask is not None) and node.box is not None:
            labels.append(node)
            if node.level == "whole":
                _draw_arrow(axes, node, color)
    for node in labels:
        assert node.box is not None
        x, y = node.box[0], node.box[1]
        below = node.level == "group"
        axes.text(
            min(x, 0.8 * tree.size[1]),
            node.box[3] if below else max(y, 0.07 * tree.size[0]),
            node.name,
            fontsize=FONT,
            color="white",
            va="top" if below else "bottom",
            bbox={"facecolor": colors[id(node)], "edgecolor": "none", "pad": 1.5, "alpha": 0.9},
            zorder=6,
        )


def _halo() -> list[Any]:
    effects = require("matplotlib.patheffects", extra="figures", purpose="drawing a parse tree")
    return [effects.withStroke(linewidth=2.8, foreground="white", alpha=0.7)]


def _draw_frame(axes: Any, node: Node, color: str) -> None:
    """The unit square of a pose, and an arrow from its middle to the top."""
    x, y, scale = (node.reading[key] for key in ("x", "y", "scale"))
    angle = math.radians(node.reading["angle"])
    right = np.array([math.cos(angle), -math.sin(angle)]) * scale  # y goes down in pixels
    up = np.array([-math.sin(angle), -math.cos(angle)]) * scale
    middle = np.array([x, y])
    corners = [middle + a * right + b * up for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))]
    # What is hardly present is hardly seen.
    style = {"color": color, "linewidth": 0.7 + node.presence, "alpha": 0.15 + 0.85 * node.presence}
    style |= {"path_effects": _halo() if node.presence >= 0.3 else []}
    axes.plot(*np.transpose(corners), **style, zorder=4)
    axes.plot(*np.transpose([middle, middle + up]), **style, zorder=4)
    axes.plot(*(middle + up), marker="o", markersize=2 + 3 * node.presence, color=color, zorder=5)


def _draw_arrow(axes: Any, node: Node, color: str) -> None:
    """Which way up a whole is: an arrow from the middle of its parts, half as long as its box."""
    assert node.box is not None
    left, top, right, bottom = node.box
    angle = math.radians(node.reading["angle"])
    start = np.array([node.reading["x"], node.reading["y"]])
    size = 0.5 * max(right - left, bottom - top)
    axes.annotate(
        "",
        xy=start + size * np.array([-math.sin(angle), -math.cos(angle)]),
        xytext=start,
        arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2.5, "path_effects": _halo()},
        zorder=5,
    )


def _draw_box(axes: Any, node: Node, color: str, *, dashed: bool) -> None:
    assert node.box is not None
    left, top, right, bottom = node.box
    axes.plot(
        [left, right, right, left, left],
        [top, top, bottom, bottom, top],
        color=color,
        linewidth=1.6 if dashed else 0.5 + 1.5 * (node.coupling or 0.0),
        linestyle=(0, (4, 2)) if dashed else "-",
        path_effects=_halo(),
        zorder=3,
    )


def _draw_mask(axes: Any, mask: Tensor, color: str, extent: Rectangle) -> None:
    colors = require("matplotlib.colors", extra="figures", purpose="drawing a parse tree")
    values = (mask.numpy() / max(float(mask.max()), 1e-12)) ** 2
    layer = np.empty((*values.shape, 4))
    layer[..., :3] = colors.to_rgb(color)
    layer[..., 3] = 0.5 * values
    axes.imshow(layer, extent=extent, interpolation="nearest", zorder=2)


def _rows(tree: ParseTree) -> list[tuple[int, Node | None, str]]:
    """Depth, node and text of each row, from the top; the image has depth 0 and no node."""
    height, width = tree.size
    rows: list[tuple[int, Node | None, str]] = [(0, None, f"image, {width}×{height} px")]

    def add(node: Node, depth: int, prefix: str = "") -> None:
        rows.append((depth, node, prefix + node.name))
        for child in node.children:
            add(child, depth + 1)

    for node in tree.roots:
        add(node, 1)
    for node in tree.loose:
        add(node, 1, "loose ")
    if len(rows) == 1:
        rows.append((1, None, "nothing was found"))
    while len(rows) > MAX_ROWS and max(depth for depth, _, _ in rows) > 1:
        deepest = max(depth for depth, _, _ in rows)
        rows = [row for row in rows if row[0] < deepest]
    return rows


def _draw_rows(axes: Any, rows: list[tuple[int, Node | None, str]], colors: dict[int, str]) -> None:
    last = [0.0]  # height of the latest node of each depth
    for number, (depth, node, text) in enumerate(rows):
        x, y = 0.08 + STEP * depth, ROW * (number + 0.6)
        color = DARK if node is None else colors[id(node)]
        del last[depth:]
        if depth:
            start = 0.08 + STEP * (depth - 1)
            coupled = node is not None and node.coupling is not None
            width = 0.5 + 2.5 * (node.coupling or 0.0) if node is not None and coupled else 1.0
            line = color if coupled else GRAY
            axes.plot([start, start, x], [last[depth - 1], y, y], color=line, linewidth=width, zorder=1)
        last.append(y)
        axes.plot(x, y, marker="o", markersize=7, color=color, markeredgecolor="white", zorder=3)
        label = axes.text(x + 0.12, y, text, fontsize=FONT, color=DARK, va="center", zorder=4)
        words = "" if node is None else _short_words(node)
        if words:
            axes.annotate(
                words,
                xy=(1, 0.5),
                xycoords=label,
                xytext=(6, 0),
                textcoords="offset points",
                fontsize=FONT - 1,
                color=GRAY,
                va="center",
                annotation_clip=False,
            )


def _short_words(node: Node) -> str:
    """Presence; angle and scale, or the position on the grid; the coupling where it is not 1."""
    words = [f"{node.presence:.2f}"]
    if node.position is not None:
        words.append("at {}, {}".format(*node.position))
    if node.pixels:
        words.append(f"{round(node.reading['angle'])}°, {node.reading['scale']:.0f} px")
    if node.coupling is not None and node.coupling < 0.995:
        words.append(f"coupling {node.coupling:.2f}")
    return ", ".join(words)
