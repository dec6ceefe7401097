"""What may be asked: exact sizes and finite numbers, so that nothing else reaches a network."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

DIGIT, CANVAS = 28, 36
CLASSES, POSE = 10, 16
MOST_FIELDS = 20

# Strict, since pydantic would otherwise read "0.5" and true as numbers.
Pixel = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
PoseNumber = Annotated[float, Field(strict=True, ge=-10, le=10, allow_inf_nan=False)]
Coordinate = Annotated[float, Field(strict=True, ge=-1000, le=1000, allow_inf_nan=False)]
DigitClass = Annotated[int, Field(strict=True, ge=0, lt=CLASSES)]

# One thing wrong is enough: a list of a hundred thousand complaints would take seconds to make.
DigitImage = Annotated[
    list[Annotated[list[Pixel], FailFast(), Field(min_length=DIGIT, max_length=DIGIT)]],
    FailFast(),
    Field(min_length=DIGIT, max_length=DIGIT, description="28 rows of 28 numbers, 0 black to 1 white"),
]
CanvasImage = Annotated[
    list[Annotated[list[Pixel], FailFast(), Field(min_length=CANVAS, max_length=CANVAS)]],
    FailFast(),
    Field(min_length=CANVAS, max_length=CANVAS, description="36 rows of 36 numbers, 0 black to 1 white"),
]


class Question(BaseModel):
    """A request that says nothing beyond what is asked for."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def few(cls, told: Any) -> Any:
        """Refuse a heap of fields at once: to complain of each takes seconds, in which nobody is answered."""
        if isinstance(told, dict) and len(told) > MOST_FIELDS:
            raise ValueError(f"a question has at most {MOST_FIELDS} fields")
        return told


class DrawQuestion(Question):
    """A digit to read."""

    image: DigitImage


class TweakQuestion(Question):
    """A pose to draw, of one class capsule."""

    pose: Annotated[list[PoseNumber], Field(min_length=POSE, max_length=POSE)]
    target: DigitClass


class OverlapQuestion(Question):
    """Two digits over each other, added and clipped."""

    image: CanvasImage


class VotesQuestion(Question):
    """A digit, and the routing that shall cluster its votes."""

    image: DigitImage
    routing: Literal["dynamic", "kmeans", "em"] = "dynamic"
    iterations: Annotated[int, Field(strict=True, ge=1, le=10)] = 3


class ToyQuestion(Question):
    """A toy and where to look at it from, in degrees."""

    category: Annotated[int, Field(strict=True, ge=0, le=4)]
    instance: Annotated[int, Field(strict=True, ge=0, le=9)]
    azimuth: Annotated[float, Field(strict=True, ge=-3600, le=3600, allow_inf_nan=False)]
    elevation: Annotated[float, Field(strict=True, ge=20, le=80, allow_inf_nan=False)]
    lighting: Annotated[int, Field(strict=True, ge=0, le=5)]


class ClustersQuestion(Question):
    """Points in the plane, and the mixture to fit to them."""

    points: Annotated[
        list[Annotated[list[Coordinate], Field(min_length=2, max_length=2)]],
        Field(min_length=2, max_length=500),
    ]
    clusters: Annotated[int, Field(strict=True, ge=1, le=8)] = 3
    kind: Literal["full", "diagonal", "spherical", "fixed", "kmeans"] = "full"
    iterations: Annotated[int, Field(strict=True, ge=1, le=50)] = 20
    sigma: Annotated[float, Field(strict=True, ge=0.01, le=2, allow_inf_nan=False)] = 0.2
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0


class AttackQuestion(Question):
    """A digit, and how far each of its pixels may be changed."""

    image: DigitImage
    epsilon: Annotated[float, Field(strict=True, ge=0, le=0.5, allow_inf_nan=False)]
