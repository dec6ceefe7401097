"""Figures of the iterations: curves of both logit updates, and the couplings of one digit."""

from __future__ import annotations

from torch import Tensor

from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.fixed_point.iterations import ITERATIONS, Curves, sorted_couplings
from torchcaps.experiments.fixed_point.verdicts import iterations_caption
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    ORANGE,
    add_axes,
    hide_frame,
    new_figure,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.models import Model

UPDATES = {"accumulate": "accumulation (2017)", "fixed_point": "fixed point"}
COLORS = {"accumulate": ORANGE, "fixed_point": BLUE}
SHOWN = (1, 3, 10, 30, 100)


def draw_curves(study: Study, curves: dict[str, Curves]) -> None:
    """Draw entropy, change and accuracy by iteration, for the network trained with accumulation."""
    figure = new_figure(10.2, 3.5)
    entropy, change, accuracy = add_axes(figure, 1, 3)
    steps = range(1, ITERATIONS + 1)
    for update, name in UPDATES.items():
        style = {"color": COLORS[update], "label": name}
        entropy.plot(steps, curves[update]["entropy"], **style)
        change.plot(steps[1:], curves[update]["change"][1:], **style)
        accuracy.plot(steps, curves[update]["accuracy"], **style)
    entropy.set(ylim=(0, 103), ylabel="%", title="entropy of the couplings")
    change.set(yscale="log", ylabel="mean length", title="change of the class poses")
    low = min(min(each["accuracy"]) for each in curves.values())
    accuracy.set(ylabel="%", ylim=(low - 0.25 * (100 - low) - 0.1, 100.1), title="accuracy with r iterations")
    for ax in (entropy, change, accuracy):
        ax.set(xscale="log", xlabel="iterations r", xticks=SHOWN, xticklabels=SHOWN)
        ax.minorticks_off()
        ax.axvline(3, color=GRAY, linewidth=0.8, linestyle=":")
    entropy.legend(loc="center left", frameon=False)
    study.add_figure("iterations", figure, caption=iterations_caption(curves))


def count_decided(coupling: Tensor) -> int:
    """How many children `[children, classes]` have a coupling above 0.99.

    >>> import torch
    >>> count_decided(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    1
    """
    return int((coupling.amax(1) > 0.99).sum())


def draw_couplings(study: Study, model: Model, images: ImageSet) -> None:
    """Draw the couplings of one digit after 1, 3, … 100 iterations."""
    chosen = int((images.labels == 2).nonzero()[3])
    image = images.images[chosen : chosen + 1].float() / 255
    figure = new_figure(9.6, 5.6)
    panels = add_axes(figure, 2, len(SHOWN))
    final = []
    for row, (update, name) in enumerate(UPDATES.items()):
        couplings = sorted_couplings(model, image, update, SHOWN)
        final.append(f"{count_decided(couplings[-1])} of {len(couplings[-1])} with {name}")
        for column, coupling in enumerate(couplings):
            ax = panels[row * len(SHOWN) + column]
            heatmap = ax.imshow(
                coupling, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
            )
            ax.set(xticks=range(10), yticks=[])
            hide_frame(ax)
            ax.tick_params(labelsize=7, labelbottom=row == 1)
            if row == 0:
                ax.set_title(f"r = {SHOWN[column]}", loc="center", color=DARK)
            if column == 0:
                ax.set_ylabel(name, fontsize=10, color=COLORS[update])
    bar = figure.colorbar(heatmap, ax=panels, shrink=0.6, pad=0.015, ticks=[0, 0.5, 1])
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    inset = panels[0].inset_axes((0.62, 0.76, 0.34, 0.22))
    inset.imshow(image[0, 0], cmap="gray_r")
    inset.set(xticks=[], yticks=[])
    study.add_figure(
        "couplings",
        figure,
        caption="One test digit (in the corner) and the couplings of its most active child capsules (rows) "
        f"to the ten classes (columns). Children with a coupling above 0.99 at the end: {', '.join(final)}.",
    )
