from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchcaps.data.worlds.boats import Scene, scene
from torchcaps.experiments.boats.figures import COLORS, draw_ambiguous, draw_noise, draw_trees
from torchcaps.experiments.boats.parsing import (
    INITIAL,
    INITIAL_SIGMA,
    KINDS,
    KMEANS,
    NEAREST,
    OPTIONS,
    ROUTINGS,
    SAME_DISTANCE,
    UNIFORM,
    UNROUTED,
    batch_scenes,
    correct_parts,
    decoy_share,
    pair_nearest,
    parse,
    route_scenes,
)
from torchcaps.experiments.boats.verdicts import add_verdicts
from torchcaps.experiments.framework.study import Claim, Study

NOISES = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16)
TABLE_NOISE = 0.02


def run(study: Study) -> None:
    """Parse many scenes of each kind with every method, with several amounts of noise in the part poses."""
    count = 100 if study.quick else 1000
    noises = (*NOISES[::2], TABLE_NOISE) if study.quick else NOISES
    study.record_settings(
        "scenes",
        count=count,
        noises=sorted(noises),
        routings=OPTIONS,
        same_distance=SAME_DISTANCE,
        initial_sigma=INITIAL_SIGMA,
        seed=study.seed,
    )
    accuracy = {
        kind: study.cached(f"parsing {kind} scenes", partial(measure, study, kind, count, noises))
        for kind in KINDS
    }
    rows: list[list[Any]] = []
    for name in COLORS:
        row: list[Any] = [name]
        for kind in KINDS:
            values = accuracy[kind][f"{TABLE_NOISE}"][name]
            row += [values["parts"], values["scenes"]]
            study.add_number(f"{name}.{kind}.parts", values["parts"])
            study.add_number(f"{name}.{kind}.scenes", values["scenes"])
        rows.append(row)
    headings = [f"{kind}: {what} correct (%)" for kind in KINDS for what in ("parts", "scenes")]
    study.add_table(
        "Parts assigned to the correct whole",
        ["method", *headings],
        rows,
        caption=f"{count} scenes of each kind; the part poses have noise of {100 * TABLE_NOISE:.0f} % of the "
        "size of the part. A part is correct if it is grouped with its true partner and no other part, as a "
        "whole of the true type (house or boat). A part that belongs to no whole is correct if it is alone. "
        "A scene is correct if all its parts are. Shaded: methods without routing. "
        "The type of two nearest parts is the one that their poses fit better.",
        marked=[row for row, name in enumerate(COLORS) if name in UNROUTED],
    )
    draw_trees(study, TABLE_NOISE)
    decoy = study.cached("following the contested parts", lambda: follow_contested(study.seed, count))
    draw_ambiguous(study, decoy, TABLE_NOISE)
    draw_noise(study, accuracy, sorted(noises))
    correct = {
        name: {kind: accuracy[kind][f"{TABLE_NOISE}"][name]["parts"] for kind in KINDS} for name in COLORS
    }
    add_verdicts(study, correct, decoy, count)


def make_scenes(study_seed: int, kind: str, count: int) -> list[Scene]:
    """Random scenes of one kind; another seed gives other scenes."""
    return [scene(kind, seed=f"{study_seed}/claim/{number}") for number in range(count)]


def measure(study: Study, kind: str, count: int, noises: tuple[float, ...]) -> dict[str, Any]:
    """Percent of the parts and of the scenes that are correct, by noise and method."""
    scenes = make_scenes(study.seed, kind, count)
    results: dict[str, Any] = {}
    for noise in noises:
        batches = list(batch_scenes(scenes, noise, study.seed))
        correct = {
            name: [
                correct_parts(batch, parse(route_scenes(batch, make())[-1], study.seed)) for batch in batches
            ]
            for name, make in ROUTINGS.items()
        }
        # The first iteration of k-means still has the initial couplings, which all routings start from.
        correct[INITIAL] = [
            correct_parts(batch, parse(route_scenes(batch, ROUTINGS[KMEANS]())[0], study.seed))
            for batch in batches
        ]
        correct[NEAREST] = [correct_parts(batch, pair_nearest(batch)) for batch in batches]
        results[f"{noise}"] = {name: percent_correct(each) for name, each in correct.items()}
    return results


def percent_correct(correct: list[Tensor]) -> dict[str, float]:
    """Percent of the parts, and of whole scenes, that are correct.

    >>> percent_correct([torch.tensor([[True, True], [True, False]])])
    {'parts': 75.0, 'scenes': 50.0}
    """
    parts = torch.cat([each.flatten() for each in correct])
    scenes = torch.cat([each.all(1) for each in correct])
    return {"parts": 100 * parts.double().mean().item(), "scenes": 100 * scenes.double().mean().item()}


def follow_contested(seed: int, count: int) -> dict[str, list[float]]:
    """Share of the contested parts that is assigned to the decoy, by routing and iteration."""
    (batch,) = batch_scenes(make_scenes(seed, "ambiguous", count), TABLE_NOISE, seed)
    return {
        name: [float(decoy_share(batch, parse(step).share).mean()) for step in route_scenes(batch, make())]
        for name, make in ROUTINGS.items()
        if name != UNIFORM
    }


CLAIM = Claim(
    name="boats",
    claim="parts find their whole by agreement",
    source="the houses and boats of essays on capsules, with the routings of the papers of 2017 and 2018",
    data="generated scenes",
    quick_data="generated scenes, fewer of them",
    minutes=3,
    run=run,
    published="the essays give no numbers",
)
