from __future__ import annotations

from typing import Any

import torch

from torchcaps.data import load
from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.viewpoints_drawing import draw_by_view, draw_courses, draw_views
from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.drawing import CAPSULES, CNN, THIRD
from torchcaps.experiments.workbench.given import norb_like
from torchcaps.experiments.workbench.matching import Moment, at_level, common_level, course, equally_good
from torchcaps.experiments.workbench.study import Study
from torchcaps.training import Recipe, evaluate, load_recipe, load_weights

# Each network's recipe, what is changed in it, and its color. With one iteration of EM every child is shared
# evenly among its parents: capsules without routing.
CAPS, UNROUTED, BASE = "capsules, EM routing", "capsules, 1 iteration: no routing", "CNN"
NETWORKS: dict[str, tuple[str, list[str], str]] = {
    CAPS: ("toys-matrix-capsnet-small", ["model.options.iterations=2"], CAPSULES),
    UNROUTED: ("toys-matrix-capsnet-small", ["model.options.iterations=1"], THIRD),
    BASE: ("toys-norb-cnn", [], CNN),
}
# Familiar and novel error in Table 2 of the paper, on smallNORB.
PUBLISHED = {
    "azimuth": {CAPS: (3.7, 13.5), BASE: (3.7, 20.0)},
    "elevation": {CAPS: (4.3, 12.3), BASE: (4.3, 17.8)},
}
GOAL = 0.75


def run(study: Study) -> None:
    """Train on familiar views, stop where networks are equally good on those, test on novel ones."""
    data = norb_like(study)
    draw_views(study)
    rows: list[list[Any]] = []
    marked: list[int] = []
    courses: dict[str, dict[str, list[Moment]]] = {}
    levels: dict[str, float] = {}
    by_view: dict[str, dict[str, dict[int, float]]] = {}
    chosen: dict[str, dict[str, Moment]] = {}
    for viewpoint, published in PUBLISHED.items():
        courses[viewpoint] = learn(study, data, viewpoint)
        level = levels[viewpoint] = common_level([courses[viewpoint][name] for name in (CAPS, BASE)])
        chosen[viewpoint], by_view[viewpoint] = {}, {}
        for name, moments in courses[viewpoint].items():
            found = measure(study, data, viewpoint, name, at_level(moments, level).epoch)
            by_view[viewpoint][name] = {int(view): error for view, error in found["views"].items()}
            chosen[viewpoint][name] = Moment(found["epoch"], found["familiar"], found["novel"])
            rows.append(
                [f"{viewpoint}: {name}", *(found[key] for key in ("familiar", "novel", "epoch", "weights"))]
            )
        for name, (familiar_error, novel_error) in published.items():
            marked.append(len(rows))
            rows.append(
                [f"{viewpoint}, paper: {name.partition(',')[0]}", familiar_error, novel_error, None, None]
            )
        study.number(f"{viewpoint}.ratio", ratio(chosen[viewpoint]))
    study.table(
        "Trained on familiar views, tested on novel ones",
        ["viewpoint: network", "familiar error (%)", "novel error (%)", "epochs", "weights"],
        rows,
        caption="Toys that were not trained on, seen from the sides of training (familiar) and from all "
        "others (novel), each network after the epoch at which it is as good on familiar views as the weaker "
        "of capsules and CNN becomes; EM with 2 iterations. Shaded: Table 2 of the paper, on smallNORB.",
        marked=marked,
    )
    if study.quick:
        study.text(
            "This is the quick form: 900 training images in either experiment where the full form has "
            "8,100, and a short training, which leaves errors far above the paper's. Differences of a few "
            "percent are chance. Capsules without routing are left to the full form."
        )
    colors = {name: color for name, (_, _, color) in NETWORKS.items()}
    draw_courses(study, courses, levels, colors)
    draw_by_view(study, by_view, colors)
    judge(study, chosen)


def recipe(study: Study, data: str, viewpoint: str, name: str) -> Recipe:
    """A network on the familiar views of one of the two experiments."""
    file, changes, _ = NETWORKS[name]
    base = load_recipe(file).override(
        [f'data.name="{data}"', f'data.options.viewpoint="{viewpoint}"', *changes]
    )
    # A rate that does not fall makes every epoch a fair place to stop; the average does the smoothing.
    base = base.override(['schedule.name="constant"', "training.batch_size=64", "evaluation.crops=1"])
    base = base.override(['training.precision="fp32"'])
    if not study.quick:
        return base.override(["training.epochs=8", "training.ema_decay=0.995"])
    views = [f"data.options.{what}={list(codes)}" for what, codes in few_views(viewpoint).items()]
    changes = [
        "data.options.size=32",
        "data.preprocess.crop=24",
        "training.epochs=8",
        "training.ema_decay=0.97",
    ]
    return base.override([*views, *changes, "training.batch_size=32", "schedule.warmup_steps=20"])


def few_views(viewpoint: str) -> dict[str, tuple[int, ...]]:
    """Views for the quick form, as `load("toys")` takes them: all familiar ones, few of the rest."""
    if viewpoint == "azimuth":
        return {
            "azimuths": (*FAMILIAR["azimuth"], 8, 14, 20, 26),
            "elevations": (1, 4, 7),
            "lightings": (0, 3),
        }
    return {
        "elevations": (*FAMILIAR["elevation"], 5, 8),
        "azimuths": (0, 6, 12, 18, 24, 30),
        "lightings": (0, 3),
    }


def images(study: Study, data: str, viewpoint: str, split: str) -> ImageSet:
    """A split of one of the two experiments."""
    options = recipe(study, data, viewpoint, CAPS).data.options
    return load(data, split, data_dir=study.data_dir, **options)


def learn(study: Study, data: str, viewpoint: str) -> dict[str, list[Moment]]:
    """Train every network, and follow its errors over the epochs; on a third of the test images if many."""
    splits = [images(study, data, viewpoint, split) for split in ("test_familiar", "test_novel")]
    # Drawn at random: every third image would be the same two of the six lightings.
    order = torch.Generator().manual_seed(0)
    familiar, novel = (
        split.select(torch.randperm(len(split), generator=order)[: max(1000, len(split) // 3)])
        for split in splits
    )
    found = {}
    for name in (CAPS, BASE) if study.quick else NETWORKS:
        made = recipe(study, data, viewpoint, name)
        training = training_name(viewpoint, name)
        study.train(training, made, keep_epochs=True)
        found[name] = course(study, training, familiar, novel, Preprocess.from_options(made.data.preprocess))
    return found


def training_name(viewpoint: str, name: str) -> str:
    """What a training is called inside the study.

    >>> training_name("azimuth", "capsules, EM routing")
    'azimuth-capsules-EM_routing'
    """
    return f"{viewpoint}-{name}".replace(", ", "-").replace(": ", "-").replace(" ", "_")


def measure(study: Study, data: str, viewpoint: str, name: str, epoch: int) -> dict[str, Any]:
    """Test the model of an epoch on all test images, view by view; errors in percent."""

    def compute() -> dict[str, Any]:
        model, card = load_weights(study.epochs(training_name(viewpoint, name))[epoch - 1])
        preprocess = Preprocess.from_options(card.preprocess)
        found: dict[str, Any] = {
            "num_params": sum(each.numel() for each in model.parameters()),
            "epoch": epoch,
        }
        views: dict[int, float] = {}
        for split in ("familiar", "novel"):
            shown = images(study, data, viewpoint, f"test_{split}")
            errors = {}
            for view in shown.metadata[viewpoint].unique().tolist():
                seen = shown.select(shown.metadata[viewpoint] == view)
                errors[view] = 100 * evaluate(model, seen, preprocess).error
            # Every view shows the same toys in the same lights, so views count alike.
            found[split] = sum(errors.values()) / len(errors)
            views |= errors
        return {**found, "views": views}

    found = study.keep(f"errors by view of {training_name(viewpoint, name)}", compute)
    for kind in ("familiar", "novel"):
        study.number(f"{viewpoint}.{name}.{kind}", found[kind])
    return found


def ratio(chosen: dict[str, Moment]) -> float:
    """The capsules' novel error as a multiple of the CNN's."""
    return chosen[CAPS].novel / max(chosen[BASE].novel, 1e-9)


def judge(study: Study, chosen: dict[str, dict[str, Moment]]) -> None:
    """Say what came out."""
    ratios = {viewpoint: ratio(moments) for viewpoint, moments in chosen.items()}
    fair = all(equally_good(moments[CAPS], moments[BASE]) for moments in chosen.values())
    parts = " and ".join(
        f"{ratios[viewpoint]:.2f} times for novel {viewpoint}s ({moments[CAPS].familiar:.1f} and "
        f"{moments[BASE].familiar:.1f} % error on familiar ones)"
        for viewpoint, moments in chosen.items()
    )
    # A tenth less is what test toys as few as these can tell from chance.
    fewer = any(each <= 0.9 for each in ratios.values())
    study.verdict(
        None if not fair else all(each <= GOAL for each in ratios.values()) or (None if fewer else False),
        f"The capsules' error on novel views is {parts} that of the CNN; in the paper it is 0.68 "
        f"and 0.69 times. (Taken to hold at {GOAL} times.)"
        + ("" if fair else " They are not equally good on familiar views, so this says little."),
    )
    for viewpoint, moments in chosen.items():
        if UNROUTED not in moments or not equally_good(moments[CAPS], moments[UNROUTED]):
            continue
        study.verdict(
            moments[CAPS].novel <= 0.9 * moments[UNROUTED].novel,
            f"On novel {viewpoint}s capsules err in {moments[CAPS].novel:.1f} % with routing, in "
            f"{moments[UNROUTED].novel:.1f} % without.",
            question=f"Novel {viewpoint}s: is it routing?",
        )


CLAIM = Claim(
    name="viewpoints",
    claim="matrix capsules generalize to novel viewpoints better than a CNN that is as good on familiar ones",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (2018), Table 2",
    data="rendered toys (made on first use), or smallNORB in --data-dir",
    quick_data="rendered toys, a few views",
    minutes=60,
    run=run,
)
