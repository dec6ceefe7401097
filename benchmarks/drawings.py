"""Which drawings of a house and a boat does `parts_capsnet-shapes` read? The table of docs/parsing.md.

Drawings are made with Pillow and read as `torchcaps parse` reads them; one thing is changed at a time.

    python benchmarks/drawings.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image, ImageDraw

from torchcaps.parsing import Names, parse
from torchcaps.training.prediction import Predictor

COUNT, WIDTH, HEIGHT, SMOOTH = 24, 640, 480, 2
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Style:
    """Brightness 0..255 of the background, 0..1 of parts and of the mark on a part, gap and angles."""

    background: int
    part: tuple[float, float]
    mark: Callable[[float], float]
    gap: float = 0.09
    angle: float = 20.0
    transparent: bool = False
    slope: int = 0


BLACK = Style(0, (0.55, 1.0), lambda part: 0.42 * part)
PAPER = Style(250, (0.0, 0.45), lambda part: 1 - 0.42 * (1 - part))
CASES = {
    "gray parts on black": BLACK,
    "at all angles": replace(BLACK, angle=180.0),
    **{f"gap {gap}": replace(BLACK, gap=gap) for gap in (0.0, 0.05, 0.15, 0.3)},
    **{f"background {value}": replace(BLACK, background=value) for value in (30, 45, 60)},
    "background from 0 to 60": replace(BLACK, slope=60),
    **{f"paper {value}": replace(PAPER, background=value) for value in (250, 230, 200, 170)},
    "dark marks on paper": replace(PAPER, part=(0.35, 0.6), mark=lambda part: 0.05),
    "light marks on black": replace(BLACK, part=(0.35, 0.6), mark=lambda part: 0.98),
    "without marks": replace(PAPER, mark=lambda part: part),
    "transparent, as on paper": replace(PAPER, transparent=True),
    "transparent, as on black": replace(BLACK, transparent=True),
}


def draw(style: Style, numbers: np.random.Generator) -> Image.Image:
    """A house on the left and a boat on the right; coordinates are in units of half a part's width, y up."""
    size = (WIDTH * SMOOTH, HEIGHT * SMOOTH)
    image = Image.new("LA", size, (0, 0)) if style.transparent else Image.new("L", size, style.background)
    pen = ImageDraw.Draw(image)
    for name, place in (("house", 0.27), ("boat", 0.72)):
        angle = math.radians(numbers.uniform(-style.angle, style.angle))
        scale = numbers.uniform(50, 85) * SMOOTH
        a, b = scale * math.cos(angle), scale * math.sin(angle)
        x, y = place * size[0], size[1] / 2

        def fill(points: Points, value: float, at: tuple[float, ...] = (a, b, x, y)) -> None:
            a, b, x, y = at
            color = int(255 * value)
            pen.polygon(
                [(x + a * p - b * q, y - b * p - a * q) for p, q in points],
                fill=(color, 255) if style.transparent else color,
            )

        first, second = numbers.uniform(*style.part, 2)
        top = -style.gap
        fill([(-1, top), (1, top), (1, -1), (-1, -1)], first)
        if name == "house":
            fill([(-1, -0.7), (1, -0.7), (1, -1), (-1, -1)], style.mark(first))
            fill([(-1, 0), (1, 0), (0, 1.5)], second)
            fill([(-0.467, 0.8), (0.467, 0.8), (0, 1.5)], style.mark(second))
        else:
            fill([(-1, top), (1, top), (1, -0.3), (-1, -0.3)], style.mark(first))
            fill([(-0.3, 0), (-0.3, 2), (1.2, 1)], second)
            fill([(0.5, 0.533), (0.5, 1.467), (1.2, 1)], style.mark(second))
    image = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    if style.slope:
        pixels = np.maximum(np.asarray(image, float), np.linspace(0, style.slope, WIDTH))
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    return image


def main() -> None:
    """Print how many drawings of each kind are read as a house and a boat."""
    predictor = Predictor.load("parts_capsnet-shapes")
    names = Names.of_card(predictor.card)
    with TemporaryDirectory() as folder:
        path = Path(folder, "drawing.png")
        for case, style in CASES.items():
            numbers = np.random.default_rng(1)
            right = 0
            for _ in range(COUNT):
                draw(style, numbers).save(path)
                pixels = predictor.read(path, shape=predictor.full_shape(path))
                (tree,) = parse(predictor.model, predictor.preprocess.test(pixels.unsqueeze(0)), names=names)
                right += sorted(node.name for node in tree.nodes("whole")) == ["boat", "house"]
            print(f"{case}: {right} of {COUNT}", flush=True)


if __name__ == "__main__":
    main()
