"""Figures of the attacks: accuracy by ε, and attacked images."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps.attacks import fgsm
from torchcaps.experiments.adversarial.measurements import EPSILONS, PANELS, QUICK_EPSILONS
from torchcaps.experiments.adversarial.verdicts import (
    CAPSULES,
    CNN,
    DENSE,
    POOLED,
    SELF_ROUTING,
    UNROUTED,
    Results,
)
from torchcaps.experiments.framework.figures import (
    BLUE,
    GRAY,
    GREEN,
    LIGHT,
    ORANGE,
    PINK,
    YELLOW,
    add_axes,
    image_grid,
    new_figure,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.models import Model
from torchcaps.training import predict

COLORS = {CAPSULES: BLUE, UNROUTED: GREEN, SELF_ROUTING: PINK, CNN: ORANGE, POOLED: YELLOW, DENSE: LIGHT}


def draw_curves(study: Study, results: Results, guessing: float) -> None:
    """Draw accuracy, or success of the attack, against ε."""
    figure = new_figure(5.8, 6.0)
    for ax, (kind, (title, label)) in zip(add_axes(figure, 2, 2), PANELS.items()):
        for name, result in results.items():
            color = COLORS[name]
            # Unchanged images have no target, so that curve has no value at ε = 0.
            start = None if kind == "targeted" else result["clean"]
            epsilons, values = [0, *result["epsilon"]], [start, *result[kind]]
            ax.plot(epsilons, values, marker="o", markersize=4, color=color, label=name)
            if kind == "bim":
                strongest = min(result["pgd"], result["pgd_logits"])
                ax.plot(result["epsilon"][1], strongest, marker="s", markersize=6, color=color)
        if kind != "targeted":
            ax.axhline(guessing, color=GRAY, linewidth=0.8, linestyle=":")
        ax.set(title=title, xlabel="ε (pixels are 0 to 1)", ylabel=label, ylim=(-3, 103))
    figure.axes[0].legend(fontsize=8, loc="upper right", frameon=False)
    study.add_figure(
        "curves",
        figure,
        caption="Each network under four attacks with increasing ε; the dotted line is random guessing. A "
        "higher curve is better, except for the targeted attack (bottom left), where a lower one is better. "
        "Squares: the stronger of both kinds of PGD with restarts. In the black-box attack (bottom right) "
        "the images were changed to attack another CNN; the other attacks know the network.",
    )


def draw_images(
    study: Study, networks: dict[str, Model], images: Tensor, labels: Tensor, classes: tuple[str, ...]
) -> None:
    """Draw a few images, and the same images after FGSM against capsules and against the CNN."""
    epsilon = (QUICK_EPSILONS if study.quick else EPSILONS)[2]
    some, labels = images[:6], labels[:6]
    attacked = {name: fgsm(networks[name], some, labels, epsilon) for name in (CAPSULES, CNN)}
    figure = image_grid(
        torch.stack([row[:, 0] for row in (some, *attacked.values())]).numpy(),
        rows=["unchanged", "against capsules", "against the CNN"],
        columns=[classes[int(label)] for label in labels],
        colors="gray_r" if study.quick else "gray",
        cell=0.8,
    )
    for row, (name, changed) in enumerate(attacked.items(), start=1):
        predictions = predict(networks[name], changed).scores.argmax(1).tolist()
        for column, prediction in enumerate(predictions):
            ax = figure.axes[row * len(labels) + column]
            color = ORANGE if prediction != int(labels[column]) else GRAY
            ax.set_xlabel(classes[prediction], fontsize=8, color=color, labelpad=1)
    study.add_figure(
        "images",
        figure,
        caption=f"Test images, and the same images after FGSM at ε = {epsilon}. Above each column: the true "
        "class. Below each changed image: the class that the attacked network chooses, orange if wrong.",
    )
