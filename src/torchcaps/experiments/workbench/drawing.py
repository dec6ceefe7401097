"""How the figures of all experiments look, and how they are written."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Colors that can be told apart by everyone (Okabe and Ito 2008), capsules always first, the CNN second.
CAPSULES, CNN, THIRD, FOURTH, FIFTH = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"
INK, QUIET, FAINT = "#22303c", "#6b7680", "#dfe4e8"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": FAINT,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "torchcaps",
}


def new_figure(width: float = 7.2, height: float = 4.2) -> Any:
    """An empty figure, in inches; no window is ever opened, and no global state of matplotlib changes.

    Example:
        >>> figure = new_figure()
        >>> axes = axes_of(figure)[0]
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def axes_of(figure: Any, rows: int = 1, columns: int = 1, **options: Any) -> list[Any]:
    """Axes of a figure in reading order, in the style of all experiments."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        return list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def image_grid(
    images: Any,
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    colors: str = "gray_r",
    cell: float = 0.62,
) -> Any:
    """A figure of small images.

    Args:
        images: `[R, C, H, W]` in 0..1, or `[R, C, H, W, 3]` for colors.
        rows: a label before each row.
        columns: a label over each column.
        colors: matplotlib's name for the colors of gray images.
        cell: side of an image in inches.
    """
    import numpy as np

    images = np.asarray(images)
    height, width = images.shape[:2]
    longest = max((len(label) for label in rows), default=0)
    figure = new_figure(cell * width + 0.09 * longest + 0.2, cell * height + (0.35 if columns else 0.1))
    for number, axis in enumerate(axes_of(figure, height, width)):
        row, column = divmod(number, width)
        axis.imshow(images[row, column], cmap=colors, vmin=0, vmax=1, interpolation="nearest")
        axis.set(xticks=[], yticks=[])
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
        if column == 0 and rows:
            axis.set_ylabel(rows[row], rotation=0, ha="right", va="center", fontsize=9)
        if row == 0 and columns:
            axis.set_title(columns[column], fontsize=8, loc="center")
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.0, hspace=0.0)
    return figure


def tile(images: Any, gap: int = 1) -> Any:
    """Images `[R, C, H, W, 3]` side by side as one, `gap` white pixels apart: far faster than R·C axes.

    >>> import numpy as np
    >>> tile(np.zeros((2, 3, 4, 4, 3))).shape
    (9, 14, 3)
    """
    import numpy as np

    edges = [(0, 0), (0, 0), (0, gap), (0, gap), (0, 0)]
    images = np.pad(np.asarray(images), edges, constant_values=1.0)
    rows, columns, height, width = images.shape[:4]
    joined = images.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, 3)
    return joined[: rows * height - gap, : columns * width - gap]


def inked(*images: Any, colors: Sequence[str] = (INK,)) -> Any:
    """Gray images `[..., H, W]` in 0..1, each printed in a color of its own over the others on white paper.

    Inks take light away, so that places where both are inked are darker than either.

    >>> import numpy as np
    >>> inked(np.zeros((2, 2)), np.ones((2, 2)), colors=["#ff0000", "#0000ff"])[0, 0].tolist()
    [0.0, 0.0, 1.0]
    """
    import numpy as np
    from matplotlib.colors import to_rgb

    light = 1.0
    for image, color in zip(images, colors, strict=True):
        taken = 1 - np.asarray(to_rgb(color))
        light = light * (1 - np.asarray(image, dtype=float)[..., None] * taken)
    return light


def save_figure(figure: Any, stem: Path) -> Path:
    """Write a figure as PNG and SVG; returns the SVG's path."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure.savefig(stem.with_suffix(".png"))
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    return stem.with_suffix(".svg")


def save_animation(frames: Sequence[Any], path: Path, milliseconds: int) -> Path:
    """Write figures one after the other as a GIF that repeats, and the last one as PNG and SVG."""
    from PIL import Image

    images = []
    for frame in frames:
        buffer = io.BytesIO()
        frame.savefig(buffer, format="png", dpi=90)
        images.append(Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE))
    durations = [milliseconds] * (len(images) - 1) + [4 * milliseconds]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0)
    save_figure(frames[-1], path.with_suffix(""))
    return path
