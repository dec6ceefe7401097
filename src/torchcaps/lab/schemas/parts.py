"""Bodies of the view of parts and wholes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from torchcaps.lab.schemas.responses import Response, Row

Pose = Annotated[list[float], Field(min_length=4, max_length=4, description="(a, b, x, y), a similarity")]


class PartShape(Response):
    """A kind of part, and its outline in its own coordinates."""

    name: str
    outline: list[Row]


class PlacedPart(Response):
    """A part inside a whole."""

    kind: int
    pose: Pose


class WholeShape(Response):
    """A type of whole: where its parts stand, and wrong ways to put them together."""

    name: str
    parts: list[PlacedPart]
    scrambled: list[list[PlacedPart]]


class ShapesResponse(Response):
    """What scenes can be made of."""

    parts: list[PartShape]
    wholes: list[WholeShape]
    groups: list[str]


class FoundGroup(Response):
    """A group of wholes that was found."""

    name: str
    kind: int
    presence: float
    pose: Pose


class FoundWhole(FoundGroup):
    """A whole that was found, and the number of the group that it belongs to, or -1."""

    group: int


class FoundPart(FoundGroup):
    """A part that was found, and the number of the whole that it belongs to, or -1.

    `votes` has the pose of a whole of each type, as this part expects it.
    """

    whole: int
    votes: list[Pose]


class PartsResponse(Response):
    """What the network found; `pixels` is its input, bytes row by row in base64.

    `presence` has that of the best whole of each type, found or not: a type below `threshold` is not found.
    `cnn` has the score of each type of whole, from a CNN with average pooling; `null` if there is none.
    """

    size: int
    pixels: str
    parts: list[FoundPart]
    wholes: list[FoundWhole]
    groups: list[FoundGroup]
    threshold: float
    presence: Row
    cnn: Row | None
