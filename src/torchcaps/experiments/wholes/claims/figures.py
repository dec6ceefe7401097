"""Figures that several claims about wholes use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps.capsules import Instances
from torchcaps.data.worlds.flat import World
from torchcaps.data.worlds.flat.similarity import apply
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    LIGHT,
    ORANGE,
    PINK,
    YELLOW,
    add_axes,
    hide_frame,
    new_figure,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.wholes.claims.networks import ALL_ANGLES, CAPSULES, LABELS, MLP, SET, Networks
from torchcaps.layers import ParsedWholes

# Networks of one kind share a color; those that were pretrained on parts have solid lines.
STYLES: dict[str, dict[str, Any]] = {
    CAPSULES: {"color": BLUE, "linewidth": 3.0, "zorder": 5},
    "dense": {"color": ORANGE, "linestyle": ":"},
    "dense_pretrained": {"color": ORANGE},
    "pooled": {"color": YELLOW, "linestyle": ":"},
    "pooled_pretrained": {"color": YELLOW},
    "resnet": {"color": PINK, "linestyle": ":"},
    "resnet_pretrained": {"color": PINK},
    MLP: {"color": GREEN, "linestyle": "--"},
    SET: {"color": GREEN},
    "ceiling": {"color": GRAY, "linestyle": "-.", "linewidth": 1.4},
}
WHOLE_COLORS = ("#56b4e9", ORANGE, GREEN, PINK, YELLOW, BLUE)


def draw_angles(
    study: Study, names: Sequence[str], by_angle: Mapping[str, list[float | None]], width: int
) -> None:
    """Draw the percentage right against the angle, with the trained angles shaded.

    Args:
        study: gets the figure.
        names: of the networks.
        by_angle: percentages of each network in bins; the first bin is around -180°.
        width: of a bin, in degrees.
    """
    figure = new_figure(7.2, 5.4)
    (axes,) = add_axes(figure)
    angles = [-180 + width * number for number in range(360 // width + 1)]
    axes.axvspan(-30, 30, color=LIGHT, alpha=0.6, linewidth=0)
    for name in names:
        values = [*by_angle[name], by_angle[name][0]]
        points = [(angle, value) for angle, value in zip(angles, values) if value is not None]
        axes.plot(*zip(*points), label=LABELS[name], **STYLES[name])
    axes.set(
        xlabel="angle of the whole (degrees)",
        ylabel="wholes named right (%)",
        ylim=(0, 103),
        xticks=angles[::2],
    )
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    study.add_figure(
        "angles",
        figure,
        caption=f"Share of new wholes that are named right, in bins of {width}°; wholes were learned at the "
        "shaded angles. With eight types, guessing is right in 12.5 %.",
    )


def draw_parses(study: Study, networks: Networks, count: int = 8) -> None:
    """Draw new scenes at all angles with the parts and the whole that capsules find."""
    scenes = networks.draw("single", count, "figure", angle=ALL_ANGLES)
    found = networks.find_parts(scenes.images)
    parsed = networks.capsules().wholes.parse(found, 1)
    figure = new_figure(8.4, 4.7)
    for number, axes in enumerate(add_axes(figure, 2, count // 2)):
        one = Instances(*(values[number] for values in found))
        wholes = ParsedWholes(
            Instances(*(values[number] for values in parsed.wholes)),
            parsed.parent[number],
            parsed.coupling[number],
        )
        draw_parse(axes, networks.world, scenes.images[number, 0], one, wholes)
    study.add_figure(
        "parses",
        figure,
        caption="The first new scenes of a random sequence, and what capsules find: the outlines of the "
        "parts that belong to the whole, where the detector sees them, and lines that connect them, as "
        "faint as a part is doubtful. Above, the name that the capsules give.",
    )


def draw_parse(axes: Any, world: World, image: Tensor, parts: Instances, parsed: ParsedWholes) -> None:
    """Draw one image, the outlines of its parts in the color of their whole, and the names of the wholes.

    Args:
        axes: where to draw.
        world: the names and shapes of its parts.
        image: uint8 `[H, W]`.
        parts: what the detector found, `[K]`.
        parsed: what they belong to, of one image.
    """
    axes.imshow(image, cmap="gray_r", extent=(-1, 1, -1, 1), vmin=0, vmax=400, interpolation="nearest")
    axes.set(xticks=[], yticks=[], xlim=(-1, 1), ylim=(-1, 1), aspect="equal")
    hide_frame(axes)
    names = []
    for whole in range(len(parsed.wholes.kind)):
        if parsed.wholes.activation[whole] <= 0:
            continue
        color = WHOLE_COLORS[whole % len(WHOLE_COLORS)]
        names.append(world.whole.names[int(parsed.wholes.kind[whole])])
        members = torch.nonzero(parsed.parent == whole)[:, 0].tolist()
        pose = parts.pose.double().numpy()
        presence = parts.activation[members].double().numpy()[:, None]
        middle = (presence * pose[members, 2:]).sum(0) / presence.sum()
        for part in members:
            seen = float(parts.activation[part])
            outline = apply(pose[part], world.parts[int(parts.kind[part])].outline)
            axes.plot(*np.concatenate([outline, outline[:1]]).T, color=color, linewidth=1.6, alpha=seen)
            axes.plot(*np.stack([middle, pose[part, 2:]]).T, color=DARK, linewidth=1.0, alpha=seen)
            axes.plot(*pose[part, 2:], "o", color=color, markersize=4, alpha=seen)
    axes.set_title(", ".join(names) or "nothing", fontsize=9, loc="center")
