"""Figures of the two examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    ORANGE,
    PINK,
    add_axes,
    new_figure,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.implicit.activation import RANGE, UNROLLED, slope, solve, unrolled
from torchcaps.experiments.implicit.sequence import ITERATIONS, QUERY

SHOWN = {1: ORANGE, 3: BLUE, 10: GREEN}


def draw_activation(study: Study, convergence: Mapping[str, Mapping[str, float]]) -> None:
    """Draw the activation, its slope, and how fast the iteration reaches them."""
    x = torch.linspace(-RANGE, RANGE, 1201, dtype=torch.float64)
    exact = solve(x)
    figure = new_figure(9.6, 3.3)
    value, gradient, errors = add_axes(figure, 1, 3)
    value.plot(x, exact, color=DARK, linewidth=3.5, alpha=0.35, label="solution")
    gradient.plot(x, slope(exact).clamp(max=20), color=DARK, linewidth=3.5, alpha=0.35, label="solution")
    for count, color in SHOWN.items():
        inputs = x.clone().requires_grad_()
        y = unrolled(inputs, count)
        (slopes,) = torch.autograd.grad(y.sum(), inputs)
        name = f"{count} iteration" + "s" * (count > 1)
        value.plot(x, y.detach(), color=color, linewidth=1.2, label=name)
        gradient.plot(x, slopes, color=color, linewidth=1.2, label=name)
    value.set(xlabel="x", title="y with y + cos y = x")
    gradient.set(xlabel="x", title="slope dy/dx", yscale="log", ylim=(0.05, 25))
    value.legend(fontsize=8)
    for key, color, label in (("error", BLUE, "y, mean"), ("slope", PINK, "dy/dx, relative, median")):
        numbers = [convergence[str(count)][key] for count in UNROLLED]
        errors.plot(UNROLLED, numbers, marker="o", markersize=4, color=color, label=label)
    errors.set(xscale="symlog", yscale="log", xlabel="iterations", title="difference to the solution")
    errors.set(xticks=UNROLLED, xticklabels=map(str, UNROLLED))
    errors.legend(fontsize=8)
    study.add_figure(
        "activation",
        figure,
        caption="The activation y that solves y + cos y = x, computed by y ← x − cos y from y = x. Left: "
        "values. Middle: slopes, which back-propagation takes through the unrolled iterations; the slope of "
        "the solution is infinite where sin y = 1, that of n iterations is at most n + 1. Right: the "
        f"difference to the solution over |x| ≤ {RANGE:g}.",
    )


def draw_sequences(study: Study, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw accuracy and attention by the number of iterations."""
    figure = new_figure(7.6, 3.2)
    accuracy, attention = add_axes(figure, 1, 2)
    counts = [str(count) for count in ITERATIONS]
    accuracy.plot(counts, [results[count]["test"] for count in counts], marker="o", color=BLUE, label="test")
    accuracy.plot(
        counts, [results[count]["train"] for count in counts], marker="o", color=GRAY, label="train"
    )
    accuracy.axhline(results[QUERY]["test"], color=ORANGE, linestyle=":", label="learned query, test")
    accuracy.set(xlabel="iterations", title="sequences classified correctly (%)")
    accuracy.legend(fontsize=8, loc="lower right")
    attention.plot(counts, [results[count]["largest"] for count in counts], marker="o", color=BLUE)
    attention.set(xlabel="iterations", ylim=(0, 103), title="attention on 5 of 20 vectors (%)")
    study.add_figure(
        "sequences",
        figure,
        caption="A sequence as one vector by iterated attention to its own mean; 0 iterations are the mean. "
        "Left: accuracy, each point a network trained with so many iterations. Right: the share of the five "
        "largest weights.",
    )
