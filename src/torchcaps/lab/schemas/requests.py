"""Request bodies: exact sizes and finite numbers only, so that nothing else reaches a network."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

DIGIT_SIZE, CANVAS_SIZE = 28, 36
NUM_CLASSES, POSE_DIM = 10, 16
MAX_FIELDS = 20

# Strict, because pydantic would otherwise accept "0.5" and true as numbers.
Pixel = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
PoseEntry = Annotated[float, Field(strict=True, ge=-10, le=10, allow_inf_nan=False)]
Coordinate = Annotated[float, Field(strict=True, ge=-1000, le=1000, allow_inf_nan=False)]
DigitClass = Annotated[int, Field(strict=True, ge=0, lt=NUM_CLASSES)]

WorldName = Literal["shapes", "faces"]

# FailFast stops at the first error: listing a hundred thousand of them would take seconds.
DigitImage = Annotated[
    list[Annotated[list[Pixel], FailFast(), Field(min_length=DIGIT_SIZE, max_length=DIGIT_SIZE)]],
    FailFast(),
    Field(
        min_length=DIGIT_SIZE,
        max_length=DIGIT_SIZE,
        description="28 rows of 28 numbers from 0 (black) to 1 (white)",
    ),
]
CanvasImage = Annotated[
    list[Annotated[list[Pixel], FailFast(), Field(min_length=CANVAS_SIZE, max_length=CANVAS_SIZE)]],
    FailFast(),
    Field(
        min_length=CANVAS_SIZE,
        max_length=CANVAS_SIZE,
        description="36 rows of 36 numbers from 0 (black) to 1 (white)",
    ),
]


class Request(BaseModel):
    """Base class of all requests: unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def limit_fields(cls, body: Any) -> Any:
        """Reject a body with many fields at once: reporting each unknown field would block the server."""
        if isinstance(body, dict) and len(body) > MAX_FIELDS:
            raise ValueError(f"expected at most {MAX_FIELDS} fields, got {len(body)}")
        return body


class DrawRequest(Request):
    """A digit to recognize."""

    image: DigitImage


GridIndex = Annotated[int, Field(strict=True, ge=0, lt=1000)]


class CapsuleRequest(Request):
    """A digit, and the place of a primary capsule on the grid."""

    image: DigitImage
    row: GridIndex
    column: GridIndex
    type: GridIndex


class TweakRequest(Request):
    """A pose of one class capsule, to be reconstructed."""

    pose: Annotated[list[PoseEntry], Field(min_length=POSE_DIM, max_length=POSE_DIM)]
    target: DigitClass


class OverlapRequest(Request):
    """An image of two overlapping digits: their sum, clipped to 1."""

    image: CanvasImage


class VotesRequest(Request):
    """A digit, and the network that routes its votes: one of the twins by its routing, or the one of Draw."""

    image: DigitImage
    routing: Literal["dynamic", "em", "kmeans", "heinsen", "draw"] = "dynamic"


class ToyRequest(Request):
    """A toy and the viewpoint to render it from; angles are in degrees."""

    category: Annotated[int, Field(strict=True, ge=0, le=4)]
    instance: Annotated[int, Field(strict=True, ge=0, le=9)]
    azimuth: Annotated[float, Field(strict=True, ge=-3600, le=3600, allow_inf_nan=False)]
    elevation: Annotated[float, Field(strict=True, ge=20, le=80, allow_inf_nan=False)]
    lighting: Annotated[int, Field(strict=True, ge=0, le=5)]


class ToyTurnRequest(ToyRequest):
    """A toy to turn around, and the viewpoint from which its light is changed."""


class ScenePart(Request):
    """A part to draw: 0 rectangle, 1 triangle, 2 ellipse; among faces 0 eye, 1 nose, 2 mouth.

    The image goes from -1 to 1, with y up; the angle is in degrees.
    """

    kind: Annotated[int, Field(strict=True, ge=0, le=2)]
    x: Annotated[float, Field(strict=True, ge=-2, le=2, allow_inf_nan=False)]
    y: Annotated[float, Field(strict=True, ge=-2, le=2, allow_inf_nan=False)]
    angle: Annotated[float, Field(strict=True, ge=-3600, le=3600, allow_inf_nan=False)]
    scale: Annotated[float, Field(strict=True, ge=0.02, le=1.5, allow_inf_nan=False)]


class PartsRequest(Request):
    """A scene of parts; later ones are drawn over earlier ones."""

    parts: Annotated[list[ScenePart], FailFast(), Field(max_length=40)]
    world: WorldName = "shapes"


class ClustersRequest(Request):
    """Points in the plane, and the mixture model to fit to them; `rows` takes points in pairs."""

    points: Annotated[
        list[Annotated[list[Coordinate], Field(min_length=2, max_length=2)]],
        Field(min_length=2, max_length=500),
    ]
    clusters: Annotated[int, Field(strict=True, ge=1, le=8)] = 3
    kind: Literal["full", "diagonal", "spherical", "fixed", "rows", "kmeans"] = "full"
    iterations: Annotated[int, Field(strict=True, ge=1, le=50)] = 20
    sigma: Annotated[float, Field(strict=True, ge=0.01, le=2, allow_inf_nan=False)] = 0.2
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0


class AttackRequest(Request):
    """A digit, and how to attack it: one step of the gradient's sign, or several."""

    image: DigitImage
    method: Literal["fgsm", "pgd"] = "fgsm"
