"""The figure of a comparison: error against time, and against the number of parameters."""

from __future__ import annotations

from collections import Counter
from statistics import mean, stdev
from typing import Any

from torchcaps.experiments.compare.networks import UNIFORM
from torchcaps.experiments.compare.summary import MEASURES, Measure, Row, Summary
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    ORANGE,
    PINK,
    YELLOW,
    add_axes,
    new_figure,
)

# Baselines have a color each and a square; a routing has a color, and its pose is the shape of its mark.
BASELINE_COLORS = {"pooled": DARK, "dense": GRAY, UNIFORM: ORANGE}
COLORS = (BLUE, GREEN, PINK, YELLOW, "#56b4e9", "#8c564b", "#7f3fbf", "#a0a000", "#00607f", "#ff7f7f")
MARKS = {None: "s", "vector": "o", "matrix": "D", "similarity": "^", "quaternion": "*"}


def draw_costs(summary: Summary, measure: Measure) -> Any | None:
    """Error against the time of training and against parameters; `None` if there is nothing to draw."""
    rows = [row for row in summary.rows if measure.key in row.values and row.speed]
    if not rows:
        return None
    routings = [row.network.head for row in rows if not row.network.is_baseline]
    colors = {head: COLORS[number % len(COLORS)] for number, head in enumerate(dict.fromkeys(routings))}
    colors |= BASELINE_COLORS
    figure = new_figure(9.6, 4.4)
    left, right = add_axes(figure, 1, 2, sharey=True)
    for row in rows:
        errors = [100 - value for value in row.values[measure.key]]
        mark = {
            "color": colors[row.network.head],
            "marker": MARKS[row.network.pose],
            "markersize": 9 if row.network.is_baseline else 7,
            "markerfacecolor": "white" if row.network.is_baseline else colors[row.network.head],
            "markeredgewidth": 1.8,
            "linestyle": "none",
            "yerr": [stdev(errors)] if len(errors) > 1 else None,
            "elinewidth": 1.0,
            "capsize": 2.5,
        }
        with_trunk = len(summary.trunks) > 1
        label = row.network.title(with_trunk=with_trunk)
        left.errorbar([training_time(row)], [mean(errors)], **mark)
        right.errorbar([row.speed["parameters"] / 1000], [mean(errors)], label=label, **mark)
    left.set(xlabel="training, seconds per 1,000 images", ylabel=f"{measure.phrase}: error (%)")
    right.set(xlabel="parameters (thousands)")
    left.set_xlim(0, None)
    for axes in (left, right):
        axes.margins(x=0.15, y=0.12)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False)
    return figure


def draw_overview(summary: Summary) -> Any:
    """All tests side by side, one line per network: mean and deviation over seeds, a color for each trunk.

    A trunk that was tried with less than three quarters of the networks is left out.
    """
    measures = [each for each in MEASURES if any(each.key in row.values for row in summary.rows)]
    counts = Counter(row.network.trunk for row in summary.rows)
    trunks = [trunk for trunk in summary.trunks if 4 * counts[trunk] >= 3 * max(counts.values())]
    rows = [row for row in summary.rows if row.network.trunk in trunks]
    names = list(dict.fromkeys(row.network.title(with_trunk=False) for row in rows))
    figure = new_figure(1.9 + 1.25 * len(measures), 0.9 + 0.24 * len(names))
    panels = add_axes(figure, 1, len(measures), sharey=True)
    for axes, measure in zip(panels, measures):
        for row in rows:
            values = row.values.get(measure.key)
            if not values:
                continue
            color = COLORS[trunks.index(row.network.trunk) % len(COLORS)]
            axes.errorbar(
                [mean(values)],
                [names.index(row.network.title(with_trunk=False))],
                xerr=[stdev(values)] if len(values) > 1 else None,
                color=color,
                marker="s" if row.network.is_baseline else "o",
                markerfacecolor="white" if row.network.is_baseline else color,
                markersize=4.5,
                linestyle="none",
                elinewidth=1.0,
                label=row.network.trunk,
            )
        axes.set_title(measure.heading, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.margins(x=0.15)
        # A deviation may reach beyond what can be right.
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, -3), min(high, 103))
    panels[0].set(yticks=range(len(names)), ylim=(len(names) - 0.5, -0.5))
    panels[0].set_yticklabels(names, fontsize=7)
    figure.supxlabel("right (%), mean ± standard deviation over seeds", fontsize=8)
    if len(trunks) > 1:
        labeled = {
            label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())
        }
        figure.legend(
            labeled.values(), labeled, loc="outside upper right", ncols=4, fontsize=7, frameon=False
        )
    return figure


def training_time(row: Row) -> float:
    """Seconds for 1,000 images in training."""
    return 1000 / row.speed["train_per_second"]
