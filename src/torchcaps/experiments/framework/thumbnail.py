"""The figure that stands for an experiment, small enough for a repository."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

MAX_BYTES = 60_000
WIDTHS = (720, 540, 400, 300)  # of a figure that is stored as pixels


def copy_figure(
    name: str, figures: Sequence[dict[str, str]], run: Path, folder: Path, *, chosen: str = ""
) -> str | None:
    """Copy the main figure of an experiment, as SVG if that is small enough, otherwise as a small PNG.

    Args:
        name: of the file to write, without its ending; older figures of this name are removed.
        figures: all of them, as `result.json` lists them.
        run: the folder that their paths start from.
        folder: where to write the copy.
        chosen: name of the main figure; by default the first one.

    Returns:
        Name of the file; `None` if the experiment has no figure.
    """
    for old in folder.glob(f"{name}.*"):
        if old.suffix in (".svg", ".png"):
            old.unlink()
    main = [each for each in figures if each["name"] == chosen] or list(figures)
    if not main:
        return None
    source = run / main[0]["file"]
    svg = source.with_suffix(".svg")
    if svg.is_file() and svg.stat().st_size <= MAX_BYTES:
        shutil.copyfile(svg, folder / f"{name}.svg")
        return f"{name}.svg"
    shrink_png(source.with_suffix(".png"), folder / f"{name}.png")
    return f"{name}.png"


def shrink_png(source: Path, target: Path) -> None:
    """Write an image with fewer pixels and 64 colors, until it is small enough."""
    from PIL import Image

    image = Image.open(source).convert("RGB")
    for width in WIDTHS:
        size = min(width, image.width), round(image.height * min(width, image.width) / image.width)
        small = image.resize(size, Image.Resampling.LANCZOS).quantize(64, dither=Image.Dither.NONE)
        small.save(target, optimize=True)
        if target.stat().st_size <= MAX_BYTES:
            return
