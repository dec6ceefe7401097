"""How often the two networks of a view differ, counted over many inputs and kept in one file.

Views open with an input on which the networks differ; the counts say how usual that is.
`python -m torchcaps.lab.differences` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchcaps.data.worlds.flat import SceneOptions, Scenes, draw_world
from torchcaps.data.worlds.toys import CATEGORIES
from torchcaps.data.worlds.toys.table import (
    SPLIT_INSTANCES,
    azimuth_degrees,
    elevation_degrees,
    table,
)
from torchcaps.lab.examples import load_examples
from torchcaps.lab.model_store import ModelStore, load_model_store
from torchcaps.lab.schemas import (
    AttackChanges,
    AttackRequest,
    CompareRequest,
    DifferencesResponse,
    Outcomes,
    OverlapRequest,
    OverlapResponse,
    PackedImage,
    PoseMoves,
    ToyRequest,
    ToyTurnRequest,
    VotePlaces,
    WholeCounts,
)
from torchcaps.lab.views import attack, compare, overlap, parts, toy
from torchcaps.models import PartsCapsNet, list_pretrained
from torchcaps.training import predict

FILE = Path(__file__).parent / "assets" / "differences.json"
PAIRS, VIEWS, SCENES = 200, 2000, 2000
BATCH = 40  # scenes that are read together
CLEAR = 0.25  # the page shows the square root, so this is half of the full color
COMPARED = (attack.CAPSULES, attack.CNN)  # the networks that Compare opens with: of about equal size
EPSILON = 0.1
# One letter for each input: it holds for both networks, the capsules alone, the CNN alone, or neither.
LETTERS = {(True, True): "b", (True, False): "c", (False, True): "n", (False, False): "-"}
NETWORKS = (
    overlap.CAPSULES,
    overlap.CNN,
    toy.CAPSULES,
    toy.CNN,
    *COMPARED,
    *((model, world) for world in parts.WORLDS for model in (parts.MODEL, parts.CNN)),
)
# The sizes and places of the lab, on which the CNN of a world was tested; a scrambled whole needs more room.
INTACT = SceneOptions(size=parts.SIZE, scale=(0.35, 0.6), offset=(0.0, 0.4))
SCRAMBLED = SceneOptions(size=parts.SIZE, scale=(0.35, 0.6), offset=(0.0, 0.25), intact=0.0)


class DigitPair(NamedTuple):
    """Two digits on the board of Overlap, and what the networks say.

    Attributes:
        labels: of both.
        layers: the image of each, `[2, 36, 36]`.
        answer: to their sum.
    """

    labels: tuple[int, int]
    layers: np.ndarray
    answer: OverlapResponse


def random_pairs(store: ModelStore) -> Iterator[DigitPair]:
    """Random pairs of the page's digits, each anywhere on the board."""
    digits, random = load_examples().digits, np.random.default_rng(0)
    board, size = 36, 28
    for _ in range(PAIRS):
        one, two = random.choice(len(digits), 2, replace=False)
        while digits[one].label == digits[two].label:
            two = random.integers(len(digits))
        layers = np.zeros((2, board, board))
        for layer, number in zip(layers, (one, two)):
            x, y = random.integers(0, board - size + 1, 2)
            layer[y : y + size, x : x + size] = digits[number].image
        request = OverlapRequest(image=layers.sum(0).clip(0, 1).tolist())
        yield DigitPair((digits[one].label, digits[two].label), layers, overlap.recognize(store, request))


def overlap_outcomes(store: ModelStore) -> Iterator[str]:
    """Whose two digits are right."""
    for labels, _, answer in random_pairs(store):
        right = (set(best) == set(labels) for best in (answer.capsules.best, answer.cnn.best))
        yield LETTERS[next(right), next(right)]


def vote_places(store: ModelStore) -> dict[str, int]:
    """How many squares on ink of one digit alone send more to that digit; see `VotePlaces`."""
    found = dict.fromkeys(VotePlaces.model_fields, 0)
    for labels, layers, answer in random_pairs(store):
        capsules = answer.capsules
        if set(capsules.best) != set(labels):
            continue
        lead = np.array(capsules.lead) * (1 if capsules.best[0] == labels[0] else -1)
        middle = (capsules.field_centers.first + capsules.field_centers.step * np.arange(len(lead))).astype(
            int
        )
        one, two = (layer[np.ix_(middle, middle)] > 0.5 for layer in layers)
        alone, clear, right = one ^ two, np.abs(lead) >= CLEAR, (lead > 0) == one
        found["pairs"] += 1
        found["squares"] += int(alone.sum())
        found["right"] += int((alone & right).sum())
        found["clear"] += int((alone & clear).sum())
        found["clear_right"] += int((alone & clear & right).sum())
    return found


def toy_outcomes(store: ModelStore) -> Iterator[str]:
    """Whose class is right: the first images of the test set, whose order is random."""
    rows = table("test")
    for category, (instance, elevation, azimuth, lighting) in zip(
        rows.category[:VIEWS].tolist(), rows.info[:VIEWS].tolist()
    ):
        request = ToyRequest(
            category=category,
            instance=instance,
            azimuth=azimuth_degrees(azimuth),
            elevation=elevation_degrees(elevation),
            lighting=lighting,
        )
        answer = toy.recognize(store, request)
        yield LETTERS[answer.capsules.best == request.category, answer.cnn.best == request.category]


def attack_changes(store: ModelStore, method: str) -> Iterator[str]:
    """Whose prediction is another one, a letter for each ε: all digits of the page."""
    for digit in load_examples().digits:
        request = AttackRequest(image=digit.image, method=method)  # type: ignore[arg-type]
        answer = attack.attack(store, request)
        one, two = answer.capsules, answer.cnn
        yield "".join(
            LETTERS[now != one.before, then != two.before] for now, then in zip(one.after, two.after)
        )


def attack_outcomes(store: ModelStore, method: str) -> Iterator[str]:
    """Whose prediction the smaller ε changes."""
    for letters in attack_changes(store, method):
        yield next((letter for letter in letters if letter != "-"), "-")


def compare_outcomes(store: ModelStore, method: str) -> Iterator[str]:
    """Whose answer an attack changes: all digits of the page, and the networks that Compare opens with."""
    for digit in load_examples().digits:
        image = PackedImage.of(torch.tensor([digit.image]))
        request = CompareRequest(
            networks=["-".join(key) for key in COMPARED],
            image=image,
            attack=method,  # type: ignore[arg-type]
            epsilon=EPSILON,
        )
        one, two = (
            each.attacked is not None and each.attacked.best != each.best
            for each in compare.compare(store, request).networks
        )
        yield LETTERS[one, two]


def world_scenes(world: str, kind: str, options: SceneOptions) -> Iterator[Scenes]:
    """Test scenes of a world, some at a time."""
    for start in range(0, SCENES, BATCH):
        yield draw_world(parts.WORLDS[world], kind, BATCH, start=start, split="test", options=options)


@torch.inference_mode()
def answers(store: ModelStore, world: str, scenes: Scenes) -> tuple[list[bool], Tensor, Tensor]:
    """Whether the capsules find a whole in each scene, and the scores of capsules and CNN."""
    network, cnn = store[parts.MODEL, world], store[parts.CNN, world]
    assert isinstance(network.model, PartsCapsNet)
    images = network.preprocess.test(scenes.images)
    found = network.model.parse(images, wholes=parts.MAX_WHOLES).wholes.wholes.activation
    cnn_scores = predict(cnn.model, cnn.preprocess.test(scenes.images)).scores
    return (
        (found >= parts.THRESHOLD).any(1).tolist(),
        predict(network.model, images).scores,
        cnn_scores,
    )


def scrambled_outcomes(store: ModelStore, world: str) -> Iterator[str]:
    """Who finds nothing in a scrambled whole: no whole, and no score of one half."""
    for scenes in world_scenes(world, "scrambled", SCRAMBLED):
        found, _, cnn = answers(store, world, scenes)
        for one, score in zip(found, cnn.amax(1).tolist()):
            yield LETTERS[not one, score < parts.THRESHOLD]


def intact_outcomes(store: ModelStore, world: str) -> Iterator[str]:
    """Who finds something in a picture of one whole."""
    for scenes in world_scenes(world, "single", INTACT):
        found, _, cnn = answers(store, world, scenes)
        for one, score in zip(found, cnn.amax(1).tolist()):
            yield LETTERS[one, score >= parts.THRESHOLD]


def named_outcomes(store: ModelStore, world: str) -> Iterator[str]:
    """Whose highest score is that of the one whole."""
    for scenes in world_scenes(world, "single", INTACT):
        _, capsules, cnn = answers(store, world, scenes)
        right = ((scores.argmax(1) == scenes.labels).tolist() for scores in (capsules, cnn))
        yield from (LETTERS[one, two] for one, two in zip(*right))


def pose_moves(store: ModelStore) -> Iterator[tuple[float, float]]:
    """How far a full turn and all lightings move the pose: each test toy, from one viewpoint."""
    for category in range(len(CATEGORIES)):
        for instance in SPLIT_INSTANCES["test"]:
            request = ToyTurnRequest(
                category=category, instance=instance, azimuth=20.0, elevation=45.0, lighting=0
            )
            answer = toy.turn(store, request)
            yield answer.turn_moves, answer.light_moves


WHOLES: dict[str, Callable[..., Iterator[str]]] = {
    "scrambled": scrambled_outcomes,
    "intact": intact_outcomes,
    "named": named_outcomes,
}
MEASUREMENTS: dict[str, Callable[[ModelStore], Iterator[str]]] = {
    "overlap": overlap_outcomes,
    "toy": toy_outcomes,
    "attack fgsm": lambda store: attack_outcomes(store, "fgsm"),
    "attack pgd": lambda store: attack_outcomes(store, "pgd"),
    "compare fgsm": lambda store: compare_outcomes(store, "fgsm"),
    "compare pgd": lambda store: compare_outcomes(store, "pgd"),
    **{
        f"{world} {name}": partial(outcomes, world=world)
        for world in parts.WORLDS
        for name, outcomes in WHOLES.items()
    },
}


def weights_of() -> dict[str, str]:
    """The digest of the weights of each network that is measured."""
    known = {(entry["model"], entry["data"]): entry["sha256"] for entry in list_pretrained()}
    return {"-".join(key): known[key] for key in NETWORKS}


def measure(store: ModelStore) -> dict[str, Any]:
    """The content of the file."""
    return {
        "sha256": weights_of(),
        **{name: "".join(outcomes(store)) for name, outcomes in MEASUREMENTS.items()},
        "changes": {method: list(attack_changes(store, method)) for method in attack.EPSILONS},
        "places": vote_places(store),
        "poses": list(pose_moves(store)),
    }


def count_outcomes(letters: str) -> Outcomes:
    """How often each outcome occurs.

    >>> count_outcomes("bbcn-b")
    Outcomes(count=6, both=3, capsules=1, cnn=1, neither=1)
    """
    both, capsules, cnn, neither = (letters.count(letter) for letter in LETTERS.values())
    return Outcomes(count=len(letters), both=both, capsules=capsules, cnn=cnn, neither=neither)


def count_changes(letters: list[str], method: str) -> AttackChanges:
    """How many answers are changed at each ε, from the letters of each digit.

    >>> count_changes(["-cb", "--n"], "fgsm").cnn
    [0, 0, 2]
    """
    columns = list(zip(*letters))
    return AttackChanges(
        count=len(letters),
        epsilons=attack.EPSILONS[method],
        capsules=[column.count("b") + column.count("c") for column in columns],
        cnn=[column.count("b") + column.count("n") for column in columns],
    )


def load_differences() -> DifferencesResponse:
    """What was measured.

    >>> load_differences().overlap.count
    200
    """
    measured = json.loads(FILE.read_text(encoding="utf-8"))
    turn, light = zip(*measured["poses"])
    counted = {name: count_outcomes(measured[name]) for name in MEASUREMENTS}
    return DifferencesResponse(
        overlap=counted["overlap"],
        toy=counted["toy"],
        attack={method: counted[f"attack {method}"] for method in ("fgsm", "pgd")},
        changes={method: count_changes(letters, method) for method, letters in measured["changes"].items()},
        compare={method: counted[f"compare {method}"] for method in ("fgsm", "pgd")},
        places=VotePlaces(**measured["places"]),
        compare_epsilon=EPSILON,
        wholes={
            world: WholeCounts(
                scale=list(INTACT.scale or ()),
                offset=list(INTACT.offset or ()),
                **{name: counted[f"{world} {name}"] for name in WHOLES},
            )
            for world in parts.WORLDS
        },
        poses=PoseMoves(
            count=len(turn),
            more_by_turn=sum(one > two for one, two in measured["poses"]),
            turn=round(median(turn), 4),
            light=round(median(light), 4),
        ),
    )


if __name__ == "__main__":
    FILE.write_text(json.dumps(measure(load_model_store()), indent=1) + "\n", encoding="utf-8")
