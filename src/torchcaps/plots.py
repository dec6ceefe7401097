from __future__ import annotations

from pathlib import Path
from typing import Any

from torchcaps._extras import require
from torchcaps._files import replaced_on_success
from torchcaps.training.metrics import Evaluation

INK, QUIET, BLUE, RED = "#22303c", "#8a949e", "#2f6f9f", "#c0392b"
NAMED_CELLS = 30


def confusion_figure(evaluation: Evaluation, path: str | Path, title: str = "") -> Path:
    """Draw a confusion matrix: right answers in blue along the diagonal, mistakes in red by how often.

    In a good model nearly all images are on the diagonal, so mistakes have a color scale of their own: the
    reddest cell is the most frequent mistake.

    Args:
        evaluation: of images with one label each.
        path: file to write: PNG, PDF or SVG, by its suffix.
        title: of the figure; accuracy and number of images are printed below it.
    """
    if evaluation.confusion is None:
        raise ValueError("a confusion matrix needs one label per image")
    import numpy as np

    require("matplotlib", extra="figures", purpose="drawing a confusion matrix")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    counts = evaluation.confusion.numpy()
    size = len(counts)
    shares = counts / counts.sum(1, keepdims=True).clip(min=1)
    diagonal = np.eye(size, dtype=bool)
    mistakes = np.where(diagonal, 0, shares)
    blues = LinearSegmentedColormap.from_list("right", ["#ffffff", BLUE])
    reds = LinearSegmentedColormap.from_list("wrong", ["#ffffff", RED])
    worst = mistakes.max() or 1.0
    colors = np.where(diagonal[..., None], blues(0.15 + 0.85 * shares), reds(mistakes / worst))

    side = min(14.0, max(4.6, 0.52 * size + 1.8))
    figure = Figure(figsize=(side, side), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(colors)
    labels = [name if len(name) <= 14 else f"{name[:13]}…" for name in evaluation.classes]
    turned = max(map(len, labels)) > 2
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    axes.set_xticks(range(size), labels, **turn)
    axes.set_yticks(range(size), labels)
    axes.tick_params(length=0, labelsize=9 if size <= 20 else 6, colors=INK)
    axes.set_xticks(np.arange(size + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(size + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#e4e8eb", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("predicted class", color=QUIET, fontsize=10)
    axes.set_ylabel("true class", color=QUIET, fontsize=10)
    if size <= NAMED_CELLS:
        for row, column in zip(*np.nonzero(counts)):
            dark = shares[row, column] > 0.5 if row == column else mistakes[row, column] > 0.6 * worst
            axes.text(
                column,
                row,
                f"{counts[row, column]}",
                ha="center",
                va="center",
                fontsize=9 if size <= 12 else 7,
                color="white" if dark else INK,
            )
    head = f"{title}\n" if title else ""
    tail = f"{100 * evaluation.accuracy:.2f} % of {evaluation.count:,} images right"
    axes.set_title(head + tail, color=INK, fontsize=11, pad=10)
    path = Path(path)
    with replaced_on_success(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png")
    return path
