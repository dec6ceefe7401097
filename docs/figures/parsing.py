"""The figure of docs/parsing.md: `python docs/figures/parsing.py` writes docs/parsing.png.

A house and a boat are drawn with Pillow, in colors on paper, and read by `torchcaps parse`. What the page
says of the figure is checked here; if it is not so, the figure is not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from PIL import Image, ImageDraw

from torchcaps.cli.app import app
from torchcaps.parsing import Node, ParseTree

HERE = Path(__file__).parent
SIZE = (640, 480)
PAPER = (250, 246, 236)
SCALE = 76  # pixels of half the width of a part
GAP = 0.09  # between parts that touch, in units of SCALE
SMOOTH = 4  # pixels that are drawn for each pixel along a side
NAMES = "harbor(boat(rectangle triangle) house(rectangle triangle))"

Points = list[tuple[float, float]]


def polygon(pen: ImageDraw.ImageDraw, middle: tuple[float, float], points: Points, color: str) -> None:
    """A polygon around a place in pixels; its points are in units of SCALE, with y up."""
    x, y = middle
    pen.polygon([(SMOOTH * (x + SCALE * a), SMOOTH * (y - SCALE * b)) for a, b in points], fill=color)


def draw_picture() -> Image.Image:
    """The drawing: each part has a lighter mark that shows which way up it is."""
    image = Image.new("RGB", (SMOOTH * SIZE[0], SMOOTH * SIZE[1]), PAPER)
    pen = ImageDraw.Draw(image)
    house, boat = (175, 250), (455, 250)
    # Wall and roof; the marks are at the bottom of a rectangle and at the tip of a triangle.
    polygon(pen, house, [(-1, -GAP), (1, -GAP), (1, -1), (-1, -1)], "#6b3a16")
    polygon(pen, house, [(-1, -0.7), (1, -0.7), (1, -1), (-1, -1)], "#c8ae98")
    polygon(pen, house, [(-1, 0), (1, 0), (0, 1.5)], "#8c1d12")
    polygon(pen, house, [(-0.467, 0.8), (0.467, 0.8), (0, 1.5)], "#dfa79f")
    # The hull is upside down, and the tip of the sail is to the right.
    polygon(pen, boat, [(-1, -GAP), (1, -GAP), (1, -1), (-1, -1)], "#0d3b66")
    polygon(pen, boat, [(-1, -GAP), (1, -GAP), (1, -0.3), (-1, -0.3)], "#9fb4c6")
    polygon(pen, boat, [(-0.3, 0), (-0.3, 2), (1.2, 1)], "#1d2f6f")
    polygon(pen, boat, [(0.5, 0.533), (0.5, 1.467), (1.2, 1)], "#a9b2d0")
    return image.resize(SIZE, Image.Resampling.LANCZOS)


def outline(nodes: Iterable[Node]) -> str:
    """The names in a tree, in the order of the alphabet."""
    texts = []
    for node in sorted(nodes, key=lambda each: each.name):
        texts.append(f"{node.name}({outline(node.children)})" if node.children else node.name)
    return " ".join(texts)


def main() -> None:
    """Draw, read and check."""
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        path = Path(folder, "drawing.png")
        draw_picture().save(path)
        arguments = ["parse", str(path), "--run", "parts_capsnet-shapes", "--out", folder]
        app(arguments, standalone_mode=False)
        tree = ParseTree.from_dict(json.loads(Path(folder, "drawing-parse.json").read_text(encoding="utf-8")))
        assert tree.size == SIZE[::-1]
        assert outline(tree.roots) == NAMES, tree
        assert not tree.loose, tree
        for node in tree.nodes("whole"):
            assert abs(node.reading["angle"]) < 5, node
        with Image.open(Path(folder, "drawing-parse.png")) as figure:
            # Few colors are enough for flat areas, and make the file a quarter as large.
            figure.convert("RGB").quantize(128).save(HERE.parent / "parsing.png", optimize=True)


if __name__ == "__main__":
    main()
