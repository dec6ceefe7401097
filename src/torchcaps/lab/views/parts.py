"""Parts and wholes: draw a scene of parts, and read it with a network that finds parts and wholes."""

from __future__ import annotations

import base64
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchcaps.capsules import Instances
from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.flat.raster import Stamps, paint
from torchcaps.data.worlds.flat.scramble import scramble
from torchcaps.data.worlds.flat.similarity import similarity
from torchcaps.data.worlds.flat.world import World
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
from torchcaps.layers import ParsedWholes, Proposals
from torchcaps.models import PartsCapsNet
from torchcaps.models.parts_capsnet import ParsedImage
from torchcaps.training import predict

WORLDS = {"shapes": SHAPES, "faces": FACES}
MODEL, CNN = "parts_capsnet", "parts_cnn"
MAX_WHOLES, MAX_GROUPS = 6, 2
SIZE = 96  # pixels along each side; with 64, parts of small wholes are hard to tell
BRIGHTNESS = 0.9
THRESHOLD = 0.5  # the least presence of a whole, a group or a loose part, as in torchcaps.parse
FAINT = 0.01  # parts below this presence propose no whole that would be seen in a bar
# Wrong ways to put the parts of each whole together: those of many tries that are least like any whole.
SCRAMBLES, TRIES = 5, 16


@cache
def list_shapes(name: str = "shapes") -> ShapesResponse:
    """Outlines of the parts of a world, and where parts stand in each whole and in scrambled ones."""
    world = WORLDS[name]
    table = world.whole
    return ShapesResponse(
        parts=[PartShape(name=each.name, outline=each.outline.round(4).tolist()) for each in world.parts],
        wholes=[
            WholeShape(
                name=name,
                parts=placed(world, row, table.place[row]),
                scrambled=[placed(world, row, place) for place in wrong_places(world, row)],
            )
            for row, name in enumerate(table.names)
        ],
        groups=list(world.group.names) if world.groups else [],
    )


def wrong_places(world: World, whole: int) -> np.ndarray:
    """Places `[SCRAMBLES, S, 4]` at which the parts of a type of whole make no whole."""
    numbers = SceneNumbers(f"lab/{whole}", 0, range(TRIES))
    kind, place, filled = scramble(world, numbers, np.full(TRIES, whole))
    error = world.relation_error(np.where(filled, kind, -1), place)
    return place[np.argsort(-error)[:SCRAMBLES]]


def placed(world: World, whole: int, place: np.ndarray) -> list[PlacedPart]:
    """The parts of a type of whole at these places `[S, 4]`."""
    member, filled = world.whole.member[whole], world.whole.filled[whole]
    return [
        PlacedPart(kind=int(member[slot]), pose=place[slot].round(5).tolist())
        for slot in np.flatnonzero(filled)
    ]


def draw_parts(parts: list[ScenePart], world: World = SHAPES) -> Tensor:
    """An image `[1, 1, SIZE, SIZE]` in 0..1; later parts are drawn over earlier ones.

    >>> draw_parts([ScenePart(kind=0, x=0, y=0, angle=0, scale=0.5)])[0, 0, 48, 48] > 0.5
    tensor(True)
    """
    canvas = np.zeros((1, SIZE, SIZE), np.float32)
    shape = (1, len(parts))
    kind = np.array([part.kind for part in parts], np.int64).reshape(shape)
    pose = similarity(
        [part.x for part in parts],
        [part.y for part in parts],
        np.radians([part.angle for part in parts]),
        [part.scale for part in parts],
    )
    stamps = Stamps(
        type=kind,
        present=np.ones(shape, bool),
        pose=pose.reshape(*shape, 4),
        form=world.form_ranges.mean(-1)[kind],  # in the middle of what the world has
        brightness=np.full(shape, BRIGHTNESS),
        texture=np.zeros((*shape, 3)),
    )
    paint(canvas, world.parts, stamps)
    return torch.from_numpy(canvas).unsqueeze(1)


@torch.inference_mode()
def read(store: ModelStore, request: PartsRequest) -> PartsResponse:
    """Draw the parts, and find parts, wholes and groups in the image; a CNN only names a whole."""
    world = WORLDS[request.world]
    network, cnn = store[MODEL, request.world], store.get((CNN, request.world))
    assert isinstance(network.model, PartsCapsNet)
    image = draw_parts(request.parts, world)
    found = parse(network.model, network.prepare(image[0]))
    wholes = kept(found.wholes.wholes)
    groups = Kept([], {}) if found.groups is None else kept(found.groups.wholes)
    group_of = [] if found.groups is None else found.groups.parent[0].tolist()
    belongs = found.wholes.parent[0].tolist()
    kinds, poses, presences = (values[0].tolist() for values in found.parts)
    part_numbers = [
        number
        for number, presence in enumerate(presences)
        if presence > 0 and (presence >= THRESHOLD or belongs[number] in wholes.row_of)
    ]
    proposals = propose_more(network.model, found)
    votes = expected_wholes(proposals, found, part_numbers)
    return PartsResponse(
        size=SIZE,
        pixels=base64.b64encode((image[0, 0] * 255).round().to(torch.uint8).numpy().tobytes()).decode(),
        parts=[
            FoundPart(
                name=world.part_names[kinds[number]],
                kind=kinds[number],
                presence=round(presences[number], 4),
                pose=[round(value, 4) for value in poses[number]],
                whole=wholes.row_of.get(belongs[number], -1),
                votes=vote,
            )
            for number, vote in zip(part_numbers, votes)
        ],
        wholes=[
            FoundWhole(
                name=world.whole.names[kind],
                kind=kind,
                presence=presence,
                pose=pose,
                group=groups.row_of.get(group_of[number], -1) if group_of else -1,
            )
            for number, kind, presence, pose in wholes.rows
        ],
        groups=[
            FoundGroup(name=world.group.names[kind], kind=kind, presence=presence, pose=pose)
            for _, kind, presence, pose in groups.rows
        ],
        threshold=THRESHOLD,
        presence=to_list(presence_of_types(network.model, found, proposals)),
        cnn=None if cnn is None else to_list(predict(cnn.model, cnn.prepare(image[0])).scores[0]),
    )


def parse(model: PartsCapsNet, image: Tensor) -> ParsedImage:
    """What `PartsCapsNet.parse` finds in one image, without the work that a page does not show.

    Proposals with a presence of 0 are left out, and groups are looked for where there are two wholes.
    """
    parts = model.find_parts(image)
    present = parts.activation[0] > 0
    if not bool(present.any()):
        present[0] = True
    parts = select(parts, present)
    wholes = model.wholes.parse(parts, MAX_WHOLES)
    pairs = int((wholes.wholes.activation > 0).sum()) // 2
    groups: ParsedWholes | None = None
    if model.groups is not None and pairs:
        groups = model.groups.parse(wholes.wholes, min(pairs, MAX_GROUPS))
    return ParsedImage(parts, wholes, groups)


def propose_more(model: PartsCapsNet, found: ParsedImage) -> Proposals:
    """What all parts propose if those that belong to a whole confirm no other."""
    kind, pose, activation = found.parts
    free = (found.wholes.parent < 0) & (activation >= FAINT)
    proposals: Proposals = model.wholes(Instances(kind, pose, activation * free))
    return proposals


def presence_of_types(model: PartsCapsNet, found: ParsedImage, proposals: Proposals) -> Tensor:
    """The presence of the best whole of each type, `[types]`.

    A type that was not found has that of its best proposal from parts that belong to no whole: it is below
    the threshold, or the type would have been found.
    """
    kind = found.parts.kind
    rare = (model.wholes.filled_logit < 0)[kind].movedim(2, 1).flatten(2, 3)  # `parse` takes none of these
    presence = proposals.score.masked_fill(rare, -torch.inf).amax(-1).sigmoid()
    wholes = found.wholes.wholes
    return presence.scatter_reduce(1, wholes.kind, wholes.activation, "amax")[0]


def select(instances: Instances, which: Tensor) -> Instances:
    """Some instances of the first sample, as a batch of one."""
    return Instances(*(values[:1, which] for values in instances))


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
    kinds, poses, presences = (values[0].tolist() for values in instances)
    rows = [
        (number, kind, round(presence, 4), [round(value, 4) for value in pose])
        for number, (kind, pose, presence) in enumerate(zip(kinds, poses, presences))
        if presence >= THRESHOLD
    ]
    return Kept(rows, {row[0]: index for index, row in enumerate(rows)})


def expected_wholes(proposals: Proposals, found: ParsedImage, numbers: list[int]) -> list[list[list[float]]]:
    """The pose of the whole of each type that each of these parts expects, `[parts, types, 4]`.

    Of its roles in a type, a part takes the one with the best score; in the whole that it belongs to, the one
    that fits best.
    """
    shape = (found.parts.kind.shape[1], -1)  # proposals are ordered by part and then by role
    pose, score = proposals.pose[0].unflatten(1, shape), proposals.score[0].unflatten(1, shape)
    role = score.argmax(-1)  # [types, parts]
    parent = found.wholes.parent[0]
    inside = (parent >= 0).nonzero().squeeze(1)
    kind, whole = (values[0, parent[inside]] for values in found.wholes.wholes[:2])
    miss = (pose[kind, inside] - whole.unsqueeze(1)).square().sum(-1)
    role[kind, inside] = miss.argmin(-1)
    chosen = pose.take_along_dim(role[..., None, None], 2).squeeze(2)  # [types, parts, 4]
    return to_list(chosen[:, numbers].transpose(0, 1))
