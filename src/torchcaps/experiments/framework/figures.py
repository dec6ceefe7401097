"""The style of all figures, small helpers for drawing them, and how they are written to files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Colors that people with color blindness can distinguish (Okabe and Ito 2008). In all figures capsules are
# blue and the CNN is orange.
BLUE, ORANGE, GREEN, PINK, YELLOW = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"
DARK, GRAY, LIGHT = "#22303c", "#6b7680", "#dfe4e8"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.edgecolor": GRAY,
    "axes.labelcolor": DARK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LIGHT,
    "text.color": DARK,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "torchcaps",
}


def new_figure(width: float = 7.2, height: float = 4.2) -> Any:
    """An empty figure; no window is opened, and no global state of matplotlib changes.

    Args:
        width: in inches.
        height: in inches.

    Example:
        >>> figure = new_figure()
        >>> axes = add_axes(figure)[0]
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def add_axes(figure: Any, rows: int = 1, columns: int = 1, **options: Any) -> list[Any]:
    """Add a grid of axes to a figure; returns them row by row."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        return list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def hide_frame(axes: Any) -> None:
    """Remove the frame, the grid and the tick marks of axes that show an image; tick labels stay."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


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
        rows: a label for each row.
        columns: a label for each column.
        colors: matplotlib's name of the color map of gray images.
        cell: side of an image in inches.
    """
    import numpy as np

    images = np.asarray(images)
    height, width = images.shape[:2]
    longest = max((len(label) for label in rows), default=0)
    figure = new_figure(cell * width + 0.09 * longest + 0.2, cell * height + (0.35 if columns else 0.1))
    for number, axes in enumerate(add_axes(figure, height, width)):
        row, column = divmod(number, width)
        axes.imshow(images[row, column], cmap=colors, vmin=0, vmax=1, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        hide_frame(axes)
        if column == 0 and rows:
            axes.set_ylabel(rows[row], rotation=0, ha="right", va="center", fontsize=9)
        if row == 0 and columns:
            axes.set_title(columns[column], fontsize=8, loc="center")
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.0, hspace=0.0)
    return figure


def tile_images(images: Any, gap: int = 1) -> Any:
    """Images `[R, C, H, W, 3]` side by side as one image: much faster to draw than R·C axes.

    Args:
        images: in 0..1.
        gap: white pixels between two images.

    Example:
        >>> import numpy as np
        >>> tile_images(np.zeros((2, 3, 4, 4, 3))).shape
        (9, 14, 3)
    """
    import numpy as np

    edges = [(0, 0), (0, 0), (0, gap), (0, gap), (0, 0)]
    images = np.pad(np.asarray(images), edges, constant_values=1.0)
    rows, columns, height, width = images.shape[:4]
    joined = images.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, 3)
    return joined[: rows * height - gap, : columns * width - gap]


def color_overlay(*images: Any, colors: Sequence[str] = (DARK,)) -> Any:
    """Gray images `[..., H, W]` in 0..1 over each other on white, each in its own color.

    The colors are multiplied, as with ink on paper: pixels that are dark in two images are darker than in
    either.

    Example:
        >>> import numpy as np
        >>> color_overlay(np.zeros((2, 2)), np.ones((2, 2)), colors=["#ff0000", "#0000ff"])[0, 0].tolist()
        [0.0, 0.0, 1.0]
    """
    import numpy as np
    from matplotlib.colors import to_rgb

    result = 1.0
    for image, color in zip(images, colors, strict=True):
        absorbed = 1 - np.asarray(to_rgb(color))
        result = result * (1 - np.asarray(image, dtype=float)[..., None] * absorbed)
    return result


def save_figure(figure: Any, stem: Path) -> Path:
    """Write a figure as PNG and SVG; returns the path of the SVG."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure.savefig(stem.with_suffix(".png"))
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    return stem.with_suffix(".svg")


def save_animation(frames: Sequence[Any], path: Path, milliseconds: int) -> Path:
    """Write figures as the frames of a GIF that repeats, and the last one as PNG and SVG too."""
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
