from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import World
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.framework.figures import DARK, add_axes, hide_frame, new_figure
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.wholes.claims.figures import STYLES
from torchcaps.experiments.wholes.claims.networks import (
    ALL_ANGLES,
    CAPSULES,
    FULL,
    LABELS,
    ON_PARTS,
    QUICK,
    Form,
    Networks,
    accuracy,
)
from torchcaps.experiments.wholes.parsing import area_under_curve, whole_score

WORLDS: tuple[World, ...] = (SHAPES, FACES)
CONDITIONS: dict[str, dict[str, Any]] = {"trained_angles": {}, "all_angles": {"angle": ALL_ANGLES}}
# How sure a classifier is that there is something it knows.
SCORES = {
    "largest logit": lambda logits: logits.amax(1),
    "largest probability": lambda logits: torch.softmax(logits, 1).amax(1),
    "logsumexp": lambda logits: torch.logsumexp(logits, 1),
}
MIN_AREA = {"shapes": 0.97, "faces": 0.95}


def run(study: Study, form: Form | None = None) -> None:
    """Train all networks on wholes only, and see whether they are less sure of scrambled ones."""
    form = form or (QUICK if study.quick else FULL)
    rows = []
    all_networks = {world.name: (Networks(study, form, world), names_of(form, world)) for world in WORLDS}
    for networks, names in all_networks.values():
        for name in names:
            networks.capsules() if name == CAPSULES else networks.baseline(name)
    study.record_settings("tests", count=form.test, conditions=CONDITIONS)
    for world, (networks, names) in all_networks.items():
        result = study.cached(f"scrambled {world}", lambda: measure(networks, names))  # noqa: B023
        for name in names:
            areas = result[name]
            for condition in CONDITIONS:
                study.add_number(f"{world}.{name}.{condition}", areas[condition]["area"])
            study.add_number(f"{world}.{name}.right", areas["right"])
            trained, everywhere = (areas[condition] for condition in CONDITIONS)
            rows.append(
                [
                    f"{world}: {LABELS[name]}",
                    areas["right"],
                    trained["area"],
                    trained["score"],
                    everywhere["area"],
                    everywhere["score"],
                ]
            )
    study.add_table(
        "Wholes against scrambled wholes",
        [
            "world: network",
            "wholes named right (%)",
            "area, trained angles",
            "by",
            "area, all angles",
            "by",
        ],
        rows,
        caption="Area under the ROC curve: how often a whole gets a higher score than a scrambled whole, "
        f"0.5 for chance, on {form.test:,} scenes of which half are scrambled. No network saw a scrambled "
        "whole in training. Capsules are judged by the log-likelihood ratio of some whole being there. "
        "For every other network, the best of three scores was taken on these very scenes: "
        "largest logit, largest probability, or logsumexp of the logits. Wholes named right: at trained "
        "angles.",
    )
    draw_areas(study)
    draw_examples(study, all_networks)


def names_of(form: Form, world: World) -> tuple[str, ...]:
    """The networks that are compared; on faces, of the CNNs only those that are pretrained."""
    cnns = form.cnns if world is SHAPES else [name for name in form.cnns if "pretrained" in name]
    return (CAPSULES, *cnns, *ON_PARTS)


def measure(networks: Networks, names: tuple[str, ...]) -> dict[str, Any]:
    """Areas under the curve of each network, and percent of intact wholes that are named right."""
    result: dict[str, Any] = {name: {} for name in names}
    for condition, options in CONDITIONS.items():
        scenes = networks.draw("scrambled", networks.form.test, "test", **options)
        intact = scenes.whole_mask[:, 0]
        for name, logits in networks.logits(names, scenes.images).items():
            scores = {"log-likelihood ratio": whole_score} if name == CAPSULES else SCORES
            areas = {key: area_under_curve(score(logits), intact) for key, score in scores.items()}
            best = max(areas, key=lambda key: areas[key])
            result[name][condition] = {"area": areas[best], "score": best}
            if condition == "trained_angles":
                result[name]["right"] = accuracy(logits[intact], scenes.labels[intact])
    return result


def judge(numbers: Mapping[str, float]) -> tuple[bool | None, str]:
    """Whether capsules tell wholes from scrambled ones, at trained angles, and better than the others.

    Args:
        numbers: areas as `world.network.condition`, of one seed or means over several.
    """
    sentences, reached, ahead = [], True, True
    for world, least in MIN_AREA.items():
        areas = {
            key.split(".")[1]: value
            for key, value in numbers.items()
            if key.startswith(f"{world}.") and key.endswith(".trained_angles")
        }
        own = areas.pop(CAPSULES)
        best = max(areas, key=lambda name: areas[name])
        reached &= own >= least
        ahead &= own > areas[best]
        sentences.append(
            f"{world}: {own:.3f} with capsules, {areas[best]:.3f} with the best other network, "
            f"“{LABELS[best]}” (over all angles {numbers[f'{world}.{CAPSULES}.all_angles']:.3f}, and "
            f"{max(numbers[f'{world}.{name}.all_angles'] for name in areas):.3f} with the best "
            "other one there)"
        )
    holds = True if reached and ahead else None if ahead or reached else False
    return holds, (
        f"Area under the ROC curve at trained angles, {'; '.join(sentences)}. (Criterion: at least "
        f"{MIN_AREA['shapes']} for shapes and {MIN_AREA['faces']} for faces, and more than every other "
        "network.)"
    )


def draw_areas(study: Study) -> None:
    """Draw the area of every network as a bar, for each world."""
    figure = new_figure(8.4, 4.4)
    panels = add_axes(figure, 1, len(WORLDS))
    for axes, world in zip(panels, WORLDS):
        keys = [
            key
            for key in study.numbers
            if key.startswith(f"{world.name}.") and key.endswith(".trained_angles")
        ]
        names = [key.split(".")[1] for key in keys]
        values = [study.numbers[key] for key in keys]
        axes.barh(range(len(names)), values, color=[STYLES[name]["color"] for name in names], height=0.7)
        for row, value in enumerate(values):
            axes.text(value + 0.02, row, f"{value:.3f}", ha="left", va="center", fontsize=8, color=DARK)
        axes.set_yticks(
            range(len(names)), [LABELS[name].replace(", pre", ",\npre") for name in names], fontsize=7
        )
        axes.set(
            xlim=(0, 1.15), xticks=[0, 0.25, 0.5, 0.75, 1], title=world.name, xlabel="area under the curve"
        )
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
    study.add_figure(
        "areas",
        figure,
        caption="Area under the ROC curve, wholes against scrambled wholes at trained angles; 0.5 is chance.",
    )


def draw_examples(study: Study, all_networks: Mapping[str, tuple[Networks, Any]], count: int = 6) -> None:
    """Draw intact and scrambled scenes with the score that capsules give."""
    figure = new_figure(8.4, 6.2)
    panels = add_axes(figure, 2 * len(all_networks), count)
    for level, (networks, _) in enumerate(all_networks.values()):
        for row, intact in enumerate((1.0, 0.0)):
            scenes = networks.draw("scrambled", count, "figure", intact=intact)
            logits = networks.logits((CAPSULES,), scenes.images)[CAPSULES]
            scores = whole_score(logits).tolist()
            for column, score in enumerate(scores):
                axes = panels[(2 * level + row) * count + column]
                axes.imshow(
                    scenes.images[column, 0], cmap="gray_r", vmin=0, vmax=255, interpolation="nearest"
                )
                axes.set(xticks=[], yticks=[])
                hide_frame(axes)
                axes.set_title(f"{score:.1f}", fontsize=8, loc="center")
                if column == 0:
                    axes.set_ylabel("whole" if intact else "scrambled", fontsize=9)
    study.add_figure(
        "examples",
        figure,
        caption="The first scenes of random sequences: wholes, and the parts of a whole in a wrong "
        "relation. Above each one is the score of capsules: the log-likelihood ratio of some whole being "
        "there against loose parts.",
    )


CLAIM = Claim(
    name="scrambled",
    claim="capsules that have seen only wholes know that the same parts in a wrong relation are none",
    source="the face with a mouth above its eyes, in essays on capsules since 2017",
    data="generated scenes of shapes and faces",
    quick_data="generated scenes of shapes and faces, smaller and fewer",
    minutes=90,
    run=run,
    judge=judge,
    seeds=5,
)
