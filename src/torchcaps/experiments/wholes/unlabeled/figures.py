"""Figures of parts that were found without labels: templates, drawings and parses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.framework.figures import (
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    YELLOW,
    add_axes,
    hide_frame,
    image_grid,
    new_figure,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.wholes.training import scene_images
from torchcaps.experiments.wholes.unlabeled.discovery import Discovery
from torchcaps.experiments.wholes.unlabeled.joint import best_pose, draw_wholes
from torchcaps.experiments.wholes.unlabeled.rendering import draw_sum, place_templates
from torchcaps.experiments.wholes.unlabeled.stages import Learned, draw_singles, unlabeled_images
from torchcaps.models.part_detector import propose_parts

KIND_COLORS = (BLUE, ORANGE, GREEN, PINK, YELLOW)
EXAMPLES = 9


def draw_templates(study: Study, discoveries: Mapping[str, Discovery]) -> None:
    """Draw the templates after each round, one figure for each source of images."""
    for source, found in discoveries.items():
        side = found.templates.shape[-1]
        rounds = found.history
        cells = torch.zeros(len(found.templates), len(rounds), side, side)
        for column, (templates, _) in enumerate(rounds):
            cells[: len(templates), column] = templates.clamp(0, 1)
        titles = [f"{100 * error:.1f} %" for _, error in rounds]
        figure = image_grid(
            cells, rows=[f"kind {n + 1}" for n in range(len(cells))], columns=titles, colors="gray", cell=0.9
        )
        study.add_figure(
            f"templates-{source.replace(' ', '-')}",
            figure,
            caption=f"The parts found in {found.drawing.kind.shape[0]} unlabeled images of {source}, "
            "step by step: first one kind after another, then all together. Above: share of the squared "
            "brightness of these images that is not explained.",
        )


@torch.no_grad()
def draw_unlabeled(study: Study, discoveries: Mapping[str, Discovery]) -> None:
    """Draw images and what the parts found in them give when they are drawn."""
    for source, found in discoveries.items():
        images = unlabeled_images(source, len(found.error), study.seed)[:EXAMPLES]
        drawing = type(found.drawing)(*(each[:EXAMPLES] for each in found.drawing))
        drawn = draw_sum(found.templates, *drawing, images.shape[-1]).clamp(0, 1)
        figure = image_grid(
            torch.stack([images[:, 0], drawn[:, 0]]), rows=["image", "drawn"], colors="gray", cell=0.9
        )
        study.add_figure(
            f"drawn-{source.replace(' ', '-')}",
            figure,
            caption=f"Unlabeled images of {source}, and the same drawn from templates and poses.",
        )


@torch.no_grad()
def draw_parses(study: Study, learned: Mapping[str, Learned]) -> None:
    """Draw test images at all angles, the parts found there, and the image drawn from the whole's pose."""
    scenes = draw_singles(EXAMPLES, study.seed, split="test", angle=(-180, 180))
    images = scene_images(scenes)
    for source, (model, templates, _) in learned.items():
        _, kind, pose = best_pose(model, images, None)
        drawn = draw_wholes(model.wholes, templates, kind, pose, images).images.clamp(0, 1)
        parts = propose_parts(model.detector(images), 6)
        figure = new_figure(1.0 * EXAMPLES, 3.3)
        panels = add_axes(figure, 3, EXAMPLES)
        for column in range(EXAMPLES):
            name = SHAPES.whole.names[int(kind[column])]
            right = bool(kind[column] == scenes.labels[column])
            _show(panels[column], images[column, 0])
            panels[column].set_title(name if right else f"{name} ✗", fontsize=8, loc="center")
            _show(panels[EXAMPLES + column], images[column, 0])
            _outline(panels[EXAMPLES + column], templates, *(each[column] for each in parts))
            _show(panels[2 * EXAMPLES + column], drawn[column, 0])
        for row, label in enumerate(("image", "parts found", "drawn from\nthe whole")):
            panels[row * EXAMPLES].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
        study.add_figure(
            f"parses-{source.replace(' ', '-')}",
            figure,
            caption=f"Test images at all angles; templates learned from {source}. Second row: outlines of "
            "the templates at the parts that were found, a color for each kind. Third row: drawn from type "
            "and pose of the whole alone; only the brightness of each part is fitted. ✗: named wrong.",
        )


def _show(axes: Any, image: Tensor) -> None:
    axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    hide_frame(axes)


def _outline(axes: Any, templates: Tensor, kind: Tensor, pose: Tensor, activation: Tensor) -> None:
    drawn = place_templates(templates, kind[None], pose[None], 64)[0]
    for each, number, presence in zip(drawn, kind.tolist(), activation.tolist()):
        if presence > 0.5 and float(each.max()) > 0.4:
            axes.contour(each, levels=[0.3], colors=[KIND_COLORS[number % len(KIND_COLORS)]], linewidths=1.0)
