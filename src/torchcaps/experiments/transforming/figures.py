"""Figures of transforming auto-encoders: examples of drawings, and poses as coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    LIGHT,
    ORANGE,
    add_axes,
    color_overlay,
    new_figure,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.transforming.pairs import MovedPair, shift_images
from torchcaps.experiments.transforming.verdicts import KINDS, Coordinates
from torchcaps.models.transforming_autoencoder import TransformingAutoencoder


@torch.no_grad()
def draw_examples(
    study: Study,
    networks: dict[str, dict[str, nn.Module]],
    tests: dict[str, Tensor],
    make_pairs: Callable[[str, Tensor, Generator], MovedPair],
) -> None:
    """Draw inputs, true moved images, and the drawings of the networks, for every kind of change."""
    figure = new_figure(9.6, 4.6)
    count, groups = 4, len(networks)
    labels = ("input", "true", "capsules", "without\ncapsules")
    panels = add_axes(figure, len(labels), groups * count)
    for group, (kind, models) in enumerate(networks.items()):
        test = tests[kind]
        some = test[torch.linspace(0, len(test) - 1, count + 2).long()[1:-1]]
        pair = make_pairs(kind, some, torch.Generator().manual_seed(5))
        drawings = [model(pair.before, pair.change).images for model in models.values()]
        for row, images in enumerate([pair.before, pair.after, *drawings]):
            for column in range(count):
                ax = panels[row * groups * count + group * count + column]
                ax.imshow(color_overlay(images[column, 0].clamp(0, 1)), interpolation="nearest")
                ax.grid(visible=False)
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_color(LIGHT)
                ax.spines[:].set_visible(True)
                if row == 0:
                    ax.set_title(change_label(kind, pair.change[column]), loc="center", fontsize=8)
                if group + column == 0:
                    ax.set_ylabel(labels[row], rotation=0, ha="right", va="center")
    study.add_figure(
        "examples",
        figure,
        caption="First row: the input image and, above it, the change: a shift in pixels to the right and "
        "down, a rotation, or a turn of a toy, of whose stereo pair the left image is shown. Second row: the "
        "true image after the change. Below: the drawings of the two networks, which get only the input "
        "image and the change.",
    )


def change_label(kind: str, change: Tensor) -> str:
    """A change in a few characters.

    >>> change_label("shift", torch.tensor([2.0, -1.0])), change_label("affine", torch.eye(3))
    ('(2, −1)', '0°')
    """
    if kind == "turn":
        text = f"{math.degrees(math.atan2(float(change[0, 2]), float(change[0, 0]))):.0f}°"
    elif kind == "shift":
        text = f"({change[0]:.0f}, {change[1]:.0f})"
    else:
        text = f"{math.degrees(math.atan2(float(change[1, 0]), float(change[0, 0]))):.0f}°"
    return text.replace("-", "−")


@torch.no_grad()
def draw_coordinates(
    study: Study, model: nn.Module, coordinates: Coordinates, test: Tensor, largest_shift: int
) -> None:
    """Draw the pose of one capsule against the true shift, and R² of all capsules against activation."""
    assert isinstance(model, TransformingAutoencoder)
    figure = new_figure(8.0, 3.9)
    left, right = add_axes(figure, 1, 2)
    values = coordinates["shift"]
    best = max(
        range(len(values["r_squared"])), key=lambda k: values["activation"][k] * values["r_squared"][k]
    )
    unmoved = model.look(test)
    generator = torch.Generator().manual_seed(0)
    for shift in range(-largest_shift, largest_shift + 1):
        moved = model.look(shift_images(test, torch.tensor([[float(shift), 0.0]]).expand(len(test), 2)))
        for index, color in ((0, BLUE), (1, GRAY)):
            change = (moved.pose - unmoved.pose)[:, best, index][:300]
            # Points of x and y side by side, with random offsets, so that they do not cover each other.
            offset = 0.25 * (torch.rand(len(change), generator=generator) - 0.5) + 0.3 * (index - 0.5)
            left.scatter(shift + offset, change, s=3, color=color, alpha=0.4, linewidths=0)
    ends = [-largest_shift - 0.5, largest_shift + 0.5]
    left.plot(ends, ends, color=DARK, linewidth=1, linestyle=":")
    left.scatter([], [], s=12, color=BLUE, label="its x")
    left.scatter([], [], s=12, color=GRAY, label="its y")
    left.legend(loc="upper left", fontsize=9)
    left.set(title="one capsule", xlabel="true x shift (pixels)", ylabel="change of the pose")
    for kind, color in (("shift", BLUE), ("affine", ORANGE), ("turn", GREEN)):
        shown = [max(-0.5, value) for value in coordinates[kind]["r_squared"]]
        right.scatter(coordinates[kind]["activation"], shown, s=22, color=color, label=KINDS[kind])
    right.axhline(0, color=GRAY, linewidth=0.8)
    right.legend(loc="lower right", fontsize=9)
    right.set(title="all capsules", xlabel="mean activation", ylabel="R² of the pose")
    right.set(ylim=(-0.55, 1.05), xlim=(0, 1))
    study.add_figure(
        "coordinates",
        figure,
        caption="Left: test digits shifted horizontally by −2 to 2 pixels, and the change of x and y in "
        "the pose of one capsule. On the dotted line x is a coordinate in pixels, although the network was "
        "not trained on positions; y should not change. Right: R² of each capsule (1 if its pose moves "
        "exactly as the image does) against its mean activation; values below −0.5 are drawn at −0.5.",
    )
