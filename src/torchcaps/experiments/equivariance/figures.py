"""Figures of the responses to changes: curves, and how well changes can be predicted."""

from __future__ import annotations

import torch

from torchcaps.experiments.equivariance.changes import CHANGES
from torchcaps.experiments.equivariance.verdicts import (
    COMPONENTS,
    DECODED,
    DENSE,
    PIXELS,
    POOLED,
    SHARED,
    UNIFORM,
    Results,
)
from torchcaps.experiments.framework.figures import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PINK,
    YELLOW,
    add_axes,
    new_figure,
)
from torchcaps.experiments.framework.study import Study

COLORS = {DECODED: BLUE, UNIFORM: YELLOW, SHARED: GREEN, POOLED: ORANGE, DENSE: PINK}
UNITS = {"x shift": "pixels", "y shift": "pixels", "rotation": "radians", "scale": "natural logarithm"}


def draw_curves(study: Study, curves: dict[str, dict[str, list[float]]]) -> None:
    """Draw how score and features change with each kind of change."""
    figure = new_figure(8.6, 5.4)
    panels = add_axes(figure, 2, len(CHANGES), sharex="col", sharey="row")
    for row, measure in enumerate(("score", "features")):
        first = panels[row * len(CHANGES)]
        for column, (change, largest) in enumerate(CHANGES.items()):
            ax = panels[row * len(CHANGES) + column]
            for network, color in COLORS.items():
                curve = curves[network][f"{change}.{measure}"]
                values = torch.linspace(-largest, largest, len(curve)).tolist()
                ax.plot(values, curve, color=color, label=network, linewidth=1.6)
            ax.tick_params(labelsize=8)
            if row == 0:
                ax.set_title(change)
            else:
                ax.set_xlabel(UNITS[change], fontsize=9)
        # After all curves: an earlier limit would fix the upper end of the shared axis too.
        first.set_ylim(bottom=0)
        first.set_ylabel(f"change of the {measure} (%)", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    study.add_figure(
        "curves",
        figure,
        caption="Top: how much the score of the true class (the length of its capsule, or the output of a "
        "CNN) changes when digits are shifted, rotated or scaled. Bottom: how much the pose, or the "
        "features of the CNN, change. According to the claim, for capsules the curves at the top are "
        "flat and those at the bottom are steep.",
    )


def draw_predictability(study: Study, results: Results) -> None:
    """Draw R² of each kind of change, for all networks."""
    figure = new_figure(7.2, 3.6)
    ax = add_axes(figure)[0]
    colors = {**COLORS, COMPONENTS[POOLED]: "#f0a878", COMPONENTS[DENSE]: "#e8bcd4", PIXELS: GRAY}
    width = 0.8 / len(results)
    for number, (name, values) in enumerate(results.items()):
        positions = [index + (number - len(results) / 2 + 0.5) * width for index in range(len(CHANGES))]
        heights = [max(0.0, values[change]) for change in CHANGES]
        ax.bar(positions, heights, width * 0.92, color=colors[name], label=name)
    ax.set_xticks(range(len(CHANGES)), list(CHANGES))
    ax.set(ylim=(0, 1), ylabel="R² on test digits")
    ax.grid(visible=False, axis="x")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    study.add_figure(
        "predictability",
        figure,
        caption="How well a linear function of the change of the features predicts the shift, rotation and "
        "scale of a digit; 1 is perfect.",
    )
