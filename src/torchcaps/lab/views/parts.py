"""Parts and wholes: draw a scene of parts, and read it with a network that finds parts and wholes."""

from __future__ import annotations

import base64
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchcaps.capsules import Instances
from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.flat.raster import Stamps, paint
from torchcaps.data.worlds.flat.scramble import scramble
from torchcaps.data.worlds.flat.similarity import similarity
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import (
    FoundGroup,
    FoundPart,
    FoundWhole,
    PartShape,
    PartsRequest,
    PartsResponse,
    PlacedPart,
    ScenePart,
    ShapesResponse,
    WholeShape,
    to_list,
)
from torchcaps.models import PartsCapsNet

MODEL = ("parts_capsnet", "shapes")
SIZE = 96  # pixels along each side; with 64, parts of small wholes are hard to tell
BRIGHTNESS = 0.9
THRESHOLD = 0.5  # the least presence of a whole, a group or a loose part, as in torchcaps.parse
# Wrong ways to put the parts of each whole together: those of many tries that are least like any whole.
SCRAMBLES, TRIES = 5, 16


@cache
def list_shapes() -> ShapesResponse:
    """Outlines of the parts, and where parts stand in each whole and in scrambled ones."""
    table = SHAPES.whole
    return ShapesResponse(
        parts=[PartShape(name=each.name, outline=each.outline.round(4).tolist()) for each in SHAPES.parts],
        wholes=[
            WholeShape(
                name=name,
                parts=placed(row, table.place[row]),
                scrambled=[placed(row, place) for place in wrong_places(row)],
            )
            for row, name in enumerate(table.names)
        ],
        groups=list(SHAPES.group.names),
    )


def wrong_places(whole: int) -> np.ndarray:
    """Places `[SCRAMBLES, S, 4]` at which the parts of a type of whole make no whole."""
    numbers = SceneNumbers(f"lab/{whole}", 0, range(TRIES))
    kind, place, filled = scramble(SHAPES, numbers, np.full(TRIES, whole))
    error = SHAPES.relation_error(np.where(filled, kind, -1), place)
    return place[np.argsort(-error)[:SCRAMBLES]]


def placed(whole: int, place: np.ndarray) -> list[PlacedPart]:
    """The parts of a type of whole at these places `[S, 4]`."""
    member, filled = SHAPES.whole.member[whole], SHAPES.whole.filled[whole]
    return [
        PlacedPart(kind=int(member[slot]), pose=place[slot].round(5).tolist())
        for slot in np.flatnonzero(filled)
    ]


def draw_parts(parts: list[ScenePart]) -> Tensor:
    """An image `[1, 1, SIZE, SIZE]` in 0..1; later parts are drawn over earlier ones.

    >>> draw_parts([ScenePart(kind=0, x=0, y=0, angle=0, scale=0.5)])[0, 0, 48, 48] > 0.5
    tensor(True)
    """
    canvas = np.zeros((1, SIZE, SIZE), np.float32)
    shape = (1, len(parts))
    pose = similarity(
        [part.x for part in parts],
        [part.y for part in parts],
        np.radians([part.angle for part in parts]),
        [part.scale for part in parts],
    )
    stamps = Stamps(
        type=np.array([part.kind for part in parts], np.int64).reshape(shape),
        present=np.ones(shape, bool),
        pose=pose.reshape(*shape, 4),
        form=np.zeros((*shape, SHAPES.form_ranges.shape[1])),
        brightness=np.full(shape, BRIGHTNESS),
        texture=np.zeros((*shape, 3)),
    )
    paint(canvas, SHAPES.parts, stamps)
    return torch.from_numpy(canvas).unsqueeze(1)


@torch.no_grad()
def read(store: ModelStore, request: PartsRequest) -> PartsResponse:
    """Draw the parts, and find parts, wholes and groups in the image."""
    network = store[MODEL]
    assert isinstance(network.model, PartsCapsNet)
    image = draw_parts(request.parts)
    found = network.model.parse(network.prepare(image[0]))
    assert found.groups is not None
    proposals = network.model.wholes(found.parts)
    groups = kept(found.groups.wholes)
    wholes = kept(found.wholes.wholes)
    belongs = found.wholes.parent[0].tolist()
    part_numbers = [
        number
        for number, presence in enumerate(found.parts.activation[0].tolist())
        if presence > 0 and (presence >= THRESHOLD or belongs[number] in wholes.row_of)
    ]
    votes = Votes.of(proposals.pose[0], proposals.score[0], len(belongs))
    names = SHAPES.whole.names
    return PartsResponse(
        size=SIZE,
        pixels=base64.b64encode((image[0, 0] * 255).round().to(torch.uint8).numpy().tobytes()).decode(),
        parts=[
            FoundPart(
                name=SHAPES.part_names[int(found.parts.kind[0, number])],
                kind=int(found.parts.kind[0, number]),
                presence=round(float(found.parts.activation[0, number]), 4),
                pose=to_list(found.parts.pose[0, number]),
                whole=wholes.row_of.get(belongs[number], -1),
                votes=to_list(votes.of_part(number, found.wholes.wholes, belongs[number])),
            )
            for number in part_numbers
        ],
        wholes=[
            FoundWhole(
                name=names[kind],
                kind=kind,
                presence=presence,
                pose=pose,
                group=groups.row_of.get(int(found.groups.parent[0, number]), -1),
            )
            for number, kind, presence, pose in wholes.rows
        ],
        groups=[
            FoundGroup(name=SHAPES.group.names[kind], kind=kind, presence=presence, pose=pose)
            for _, kind, presence, pose in groups.rows
        ],
    )


class Kept(NamedTuple):
    """Instances that are present enough to be shown.

    Attributes:
        rows: number among all instances, type, presence and pose.
        row_of: the row of each number.
    """

    rows: list[tuple[int, int, float, list[float]]]
    row_of: dict[int, int]


def kept(instances: Instances) -> Kept:
    """The present instances of the first sample."""
    rows = [
        (number, int(instances.kind[0, number]), round(presence, 4), to_list(instances.pose[0, number]))
        for number, presence in enumerate(instances.activation[0].tolist())
        if presence >= THRESHOLD
    ]
    return Kept(rows, {row[0]: index for index, row in enumerate(rows)})


class Votes(NamedTuple):
    """What each part proposes for each type of whole.

    Attributes:
        pose: `[types, parts, roles, 4]`.
        score: `[types, parts, roles]`.
    """

    pose: Tensor
    score: Tensor

    @classmethod
    def of(cls, pose: Tensor, score: Tensor, parts: int) -> Votes:
        """Proposals `[types, parts · roles]`, ordered by part and then by role."""
        return cls(pose.unflatten(1, (parts, -1)), score.unflatten(1, (parts, -1)))

    def of_part(self, number: int, wholes: Instances, parent: int) -> Tensor:
        """The pose of the whole of each type that a part expects, `[types, 4]`.

        Of its roles in a type, it takes the one with the best score; in the whole that it belongs to, the one
        that fits best.
        """
        role = self.score[:, number].argmax(1)
        if parent >= 0:
            kind = int(wholes.kind[0, parent])
            miss = (self.pose[kind, number] - wholes.pose[0, parent]).square().sum(-1)
            role[kind] = miss.argmin()
        return self.pose[torch.arange(len(role)), number, role]
