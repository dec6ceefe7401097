"""Parts, their poses and wholes from pixels, with no label for parts."""

from __future__ import annotations

from functools import partial

import torch

from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.wholes.training import measure_wholes, scene_images
from torchcaps.experiments.wholes.unlabeled.figures import draw_parses, draw_templates, draw_unlabeled
from torchcaps.experiments.wholes.unlabeled.joint import best_pose, draw_wholes, drawing_error
from torchcaps.experiments.wholes.unlabeled.stages import (
    CHANNELS,
    FULL,
    QUICK,
    Learned,
    draw_singles,
    learn_jointly,
    learn_templates,
    learn_wholes,
)

LOOSE, WHOLES = "loose parts", "wholes"
DREAMT, JOINT = "parts by drawing, wholes by label", "all together, by label and drawing"
GOAL = 0.95


def run(study: Study) -> None:
    """Learn parts from unlabeled images of loose parts and of wholes, then wholes from class labels."""
    sizes = QUICK if study.quick else FULL
    sources = (LOOSE,) if study.quick else (LOOSE, WHOLES)
    study.record_settings("sizes", seed=study.seed, channels=CHANNELS, sources=sources, **sizes._asdict())
    rows, discoveries, networks = [], {}, {}
    accuracy: dict[tuple[str, str], dict[str, float]] = {}
    for source in sources:
        discoveries[source], tried = learn_templates(study, source, sizes)
        study.add_number(f"{source}.unexplained", float(tried.min()))
        dreamt = learn_wholes(study, source, discoveries[source], sizes)
        networks[source] = learn_jointly(study, source, dreamt, sizes)
        for way, learned in ((DREAMT, dreamt), (JOINT, networks[source])):
            shares = accuracy[source, way] = study.cached(
                f"accuracy, {source}, {way}", partial(measure, learned, study.seed, sizes.test)
            )
            rows.append([source, way, *(100 * share for share in shares.values())])
            for name, share in shares.items():
                study.add_number(f"{source}.{way}.{name}", share)
    study.add_table(
        "Wholes named right, without a label for any part",
        ["templates learned from", "training", *(f"{name} (%)" for name in shares)],
        rows,
        caption=f"{sizes.test:,} new images for each condition. Wholes are shown in training within ±30°. "
        "Loose parts: unlabeled images of three parts each, at all angles. Wholes: templates were learned "
        "from images of wholes within ±30°: no turned image was shown at all. In both cases the "
        "detector learned from scenes that the model drew from its templates, at all angles. Drawing "
        "error: of images drawn from type and pose of the whole, at all angles, relative to their squared "
        "brightness.",
    )
    draw_templates(study, discoveries)
    draw_unlabeled(study, discoveries)
    draw_parses(study, networks)
    add_verdicts(study, accuracy)


@torch.no_grad()
def measure(learned: Learned, seed: int, count: int) -> dict[str, float]:
    """Accuracy on validation images and by condition, and the error of drawings at all angles."""
    validation = draw_singles(count, seed + 2)
    logits, _, _ = best_pose(learned.model, scene_images(validation), None)
    shares = {"validation": float((logits.argmax(1) == validation.labels).float().mean())}
    shares.update(measure_wholes(learned.model, SHAPES, count=count, seed=seed))
    images = scene_images(draw_singles(min(count, 200), seed, split="test", angle=(-180, 180)))
    _, kind, pose = best_pose(learned.model, images, None)
    drawn = draw_wholes(learned.model.wholes, learned.templates, kind, pose, images).images
    shares["drawing error"] = float(drawing_error(drawn, images).mean())
    return shares


def add_verdicts(study: Study, accuracy: dict[tuple[str, str], dict[str, float]]) -> None:
    """The claim holds if a network that was trained together names 95 % at all angles."""
    joint = {source: shares for (source, way), shares in accuracy.items() if way == JOINT}
    dreamt = {source: shares for (source, way), shares in accuracy.items() if way == DREAMT}

    def sentence(by_source: dict[str, dict[str, float]]) -> str:
        return "; ".join(
            f"{100 * shares['all angles']:.1f} % with templates from {source}"
            for source, shares in by_source.items()
        )

    reached = [shares["all angles"] >= GOAL for shares in joint.values()]
    study.add_verdict(
        True if all(reached) else None if any(reached) else False,
        "Trained from class labels and by drawing images back from wholes' poses, the network names wholes "
        f"at all angles right in {sentence(joint)}. The claim asks for {100 * GOAL:.0f} %.",
    )
    reached = [shares["all angles"] >= GOAL for shares in dreamt.values()]
    study.add_verdict(
        True if all(reached) else None if any(reached) else False,
        f"With a detector that saw no image but its own drawings: {sentence(dreamt)}.",
        question="Are parts by drawing, and labels for wholes only, enough?",
    )


CLAIM = Claim(
    name="parts-unlabeled",
    claim="a network learns parts and their poses by drawing images back, without a label for any part, and "
    "knows wholes at angles that it has not met",
    source="the idea of inverse graphics in Hinton, Krizhevsky, Wang 2011 and Kosiorek et al. 2019",
    data="the world of shapes",
    quick_data="fewer scenes of the same world, loose parts only",
    minutes=30,
    run=run,
)
