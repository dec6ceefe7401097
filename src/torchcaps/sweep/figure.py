"""The figure of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchcaps._extras import require
from torchcaps._files import replaced_on_success
from torchcaps.plots import BLUE, INK, QUIET

MOST_ROWS = 40


def draw_sweep(summary: Mapping[str, Any], path: str | Path) -> Path:
    """Draw the validation accuracy of every combination: a point per seed, mean and standard deviation.

    Args:
        summary: what a sweep returns; the best forty combinations are drawn.
        path: file to write: PNG, PDF or SVG, by its suffix.
    """
    require("matplotlib", extra="figures", purpose="drawing a sweep")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in summary["rows"] if row["validation"]["mean"] is not None][:MOST_ROWS]
    figure = Figure(figsize=(7.5, 1.4 + 0.34 * len(rows)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        numbers = row["validation"]
        points = [100 * value for value in numbers["values"]]
        axes.plot(points, [place] * len(points), "o", color=BLUE, alpha=0.35, markersize=5, mew=0)
        axes.errorbar(
            100 * numbers["mean"], place, xerr=100 * (numbers["sd"] or 0), fmt="D", color=INK, markersize=4,
            capsize=3, linewidth=1,
        )  # fmt: skip
    names = [
        ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in row["values"].items()) for row in rows
    ]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", color="#e4e8eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("accuracy on validation images (%); mean ± standard deviation over seeds", color=QUIET)
    path = Path(path)
    with replaced_on_success(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png")
    return path
