"""Figures of reconstructions with a moved pose: one for each digit, and one for all classes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from torchcaps.experiments.framework.figures import (
    BLUE,
    ORANGE,
    add_axes,
    color_overlay,
    hide_frame,
    new_figure,
    tile_images,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.perturb.effects import PROPERTIES, property_changes

END_COLORS = (ORANGE, BLUE)


def draw_one_digit(study: Study, images: Tensor, labels: Tensor, label: int) -> None:
    """Draw one digit at all steps, with the property that each dimension changes most.

    Args:
        study: gets the figure.
        images: `[N, K, S, H, W]` of `reconstruct_moved`.
        labels: `[N]`.
        label: class of the digit.
    """
    changes = property_changes(images, labels)[labels == label].mean(0)
    example = images[labels == label][0]
    dims, steps, height, width = example.shape
    both_ends = color_overlay(example[:, :1], example[:, -1:], colors=END_COLORS)
    figure = new_figure(6.2, 7.0)
    ax = add_axes(figure)[0]
    tiles = np.concatenate([color_overlay(example), both_ends], axis=1)
    ax.imshow(tile_images(tiles), interpolation="nearest")
    row_labels = []
    for number, change in enumerate(changes, start=1):
        largest = int(change.abs().argmax())
        text = f"{PROPERTIES[largest]} {float(change[largest]):+.1f}σ  {number:2}"
        row_labels.append(text.replace("-", "−"))
    ax.set_yticks([(height + 1) * row + height / 2 for row in range(dims)], row_labels, fontsize=8)
    column_labels = [""] * steps
    column_labels[0], column_labels[steps // 2], column_labels[-1] = "−0.25", "0", "0.25"
    positions = [(width + 1) * column + width / 2 for column in range(steps + 1)]
    ax.set_xticks(positions, [*column_labels, "both"], fontsize=8)
    ax.xaxis.tick_top()
    hide_frame(ax)
    study.add_figure(
        f"digit_{label}",
        figure,
        caption=f"A test digit {label}, reconstructed from its capsule. Each row moves one dimension of the "
        "pose from −0.25 to 0.25. The last column shows the first and the last image in one: orange pixels "
        "are only in the first, blue ones only in the last. On the left: the property that the dimension "
        "changes most in this class, and its change from the first to the last image, in units of its "
        "standard deviation within a class (σ).",
    )


def draw_all_digits(study: Study, images: Tensor, labels: Tensor) -> None:
    """Draw one example of each class for all dimensions."""
    examples = torch.stack([images[labels == label][0] for label in labels.unique()])
    classes, dims, _, height, width = examples.shape
    figure = new_figure(6.8, 4.5)
    ax = add_axes(figure)[0]
    both_ends = color_overlay(examples[:, :, 0], examples[:, :, -1], colors=END_COLORS)
    ax.imshow(tile_images(both_ends), interpolation="nearest")
    ax.set_yticks([(height + 1) * row + height / 2 for row in range(classes)], labels.unique().tolist())
    positions = [(width + 1) * column + width / 2 for column in range(dims)]
    ax.set_xticks(positions, [str(number) for number in range(1, dims + 1)], fontsize=8)
    ax.xaxis.tick_top()
    hide_frame(ax)
    study.add_figure(
        "all_digits",
        figure,
        caption="One digit of each class (rows), with one dimension of its pose (columns) moved by −0.25 "
        "(orange) and by 0.25 (blue); pixels of both are dark. The strokes change their slant, width, "
        "position or thickness, and the class stays the same. A dimension has a different meaning in each "
        "row, because each class has its own capsule.",
    )
