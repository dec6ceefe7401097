"""Request and response bodies of the JSON API.

Requests accept exact sizes and finite numbers only, so that nothing else reaches a network. Views build their
response from these classes, which validates it: what is sent cannot differ from the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator
from torch import Tensor

DIGIT_SIZE, CANVAS_SIZE = 28, 36
NUM_CLASSES, POSE_DIM = 10, 16
MAX_FIELDS = 20

# Strict, because pydantic would otherwise accept "0.5" and true as numbers.
Pixel = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
PoseEntry = Annotated[float, Field(strict=True, ge=-10, le=10, allow_inf_nan=False)]
Coordinate = Annotated[float, Field(strict=True, ge=-1000, le=1000, allow_inf_nan=False)]
DigitClass = Annotated[int, Field(strict=True, ge=0, lt=NUM_CLASSES)]

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


class TweakRequest(Request):
    """A pose of one class capsule, to be reconstructed."""

    pose: Annotated[list[PoseEntry], Field(min_length=POSE_DIM, max_length=POSE_DIM)]
    target: DigitClass


class OverlapRequest(Request):
    """An image of two overlapping digits: their sum, clipped to 1."""

    image: CanvasImage


class VotesRequest(Request):
    """A digit, and the routing to apply to its votes."""

    image: DigitImage
    routing: Literal["dynamic", "kmeans", "em"] = "dynamic"
    iterations: Annotated[int, Field(strict=True, ge=1, le=10)] = 3


class ToyRequest(Request):
    """A toy and the viewpoint to render it from; angles are in degrees."""

    category: Annotated[int, Field(strict=True, ge=0, le=4)]
    instance: Annotated[int, Field(strict=True, ge=0, le=9)]
    azimuth: Annotated[float, Field(strict=True, ge=-3600, le=3600, allow_inf_nan=False)]
    elevation: Annotated[float, Field(strict=True, ge=20, le=80, allow_inf_nan=False)]
    lighting: Annotated[int, Field(strict=True, ge=0, le=5)]


class ClustersRequest(Request):
    """Points in the plane, and the mixture model to fit to them."""

    points: Annotated[
        list[Annotated[list[Coordinate], Field(min_length=2, max_length=2)]],
        Field(min_length=2, max_length=500),
    ]
    clusters: Annotated[int, Field(strict=True, ge=1, le=8)] = 3
    kind: Literal["full", "diagonal", "spherical", "fixed", "kmeans"] = "full"
    iterations: Annotated[int, Field(strict=True, ge=1, le=50)] = 20
    sigma: Annotated[float, Field(strict=True, ge=0.01, le=2, allow_inf_nan=False)] = 0.2
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0


class AttackRequest(Request):
    """A digit, and how much each pixel may change."""

    image: DigitImage
    epsilon: Annotated[float, Field(strict=True, ge=0, le=0.5, allow_inf_nan=False)]


# Lists rather than tuples: not every OpenAPI client understands the schema of a tuple.
TwoClasses = Annotated[list[int], Field(min_length=2, max_length=2)]
TwoSizes = Annotated[list[int], Field(min_length=2, max_length=2)]
TwoFractions = Annotated[list[float], Field(min_length=2, max_length=2)]

Row = list[float]
Matrix = list[Row]
Image = list[Row]


class Response(BaseModel):
    """Base class of all responses: NaN and infinity, which JSON cannot represent, are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ModelInfo(Response):
    """A network whose weights are loaded, and its test metrics."""

    model: str
    data: str
    num_params: int
    metrics: dict[str, float]


class ClassNames(Response):
    """The names of the classes."""

    digits: list[str]
    toys: list[str]


class StatusResponse(Response):
    """Version, kernels, loaded networks and class names."""

    version: str
    kernels: str
    models: list[ModelInfo]
    classes: ClassNames


class ExampleDigit(Response):
    """A digit of the MNIST test set."""

    label: int
    image: Image


class ExamplesResponse(Response):
    """Example digits."""

    digits: list[ExampleDigit]


class FieldCenters(Response):
    """Where the receptive fields lie: the pixel at the center of the first, and the distance to the next."""

    first: float
    step: float


class DrawResponse(Response):
    """Class capsules, couplings, and the reconstruction from the longest capsule."""

    best: int
    lengths: Row
    reconstruction: Image
    pose: Row
    poses: list[Row]
    grid: TwoSizes
    field_centers: FieldCenters
    couplings: list[list[Matrix]]
    elapsed_ms: float


class TweakResponse(Response):
    """The reconstruction from a pose."""

    reconstruction: Image


class CapsulePair(Response):
    """The two longest capsules, each with its own reconstruction."""

    best: TwoClasses
    lengths: Row
    reconstructions: list[Image]


class ScorePair(Response):
    """The two classes with the highest scores."""

    best: TwoClasses
    scores: Row


class OverlapResponse(Response):
    """Predictions of both networks for two overlapping digits."""

    capsules: CapsulePair
    cnn: ScorePair


class MeanPoint(Response):
    """The mean of a class's votes, in the plane."""

    x: float
    y: float
    class_: int = Field(serialization_alias="class")


class VotePoint(MeanPoint):
    """The vote of a child capsule for a class, in the plane."""

    child: int


class Histogram(Response):
    """Distances of the votes to their mean, weighted by the coupling; one histogram per class."""

    edges: Row
    counts: dict[str, Row]


class VotesIteration(Response):
    """The state of the routing after one iteration."""

    means: list[MeanPoint]
    weight: Row
    activation: Row
    histogram: Histogram


class VotesResponse(Response):
    """Votes of the last layer along two principal axes, and the routing's iterations."""

    classes: list[str]
    best: int
    points: list[VotePoint]
    iterations: list[VotesIteration]
    explained_variance: TwoFractions


class TrainingViews(Response):
    """Viewpoints and instances of the training set."""

    azimuths: Row
    elevations: Row
    instances: list[int]


class ToysResponse(Response):
    """Available toys and viewpoints, and those used in training."""

    categories: list[str]
    instances: int
    azimuths: Row
    elevations: Row
    lightings: list[int]
    trained: TrainingViews


class ClassScores(Response):
    """The predicted class, and the softmax over the logits."""

    best: int
    scores: Row


class ToyCapsules(ClassScores):
    """Class scores, and the pose matrix of the predicted class."""

    pose: Matrix
    pose_size: int


class ToyResponse(Response):
    """A rendered stereo pair, and the predictions of both networks."""

    image: list[Image]
    capsules: ToyCapsules
    cnn: ClassScores


class ClustersIteration(Response):
    """The mixture model after one iteration."""

    means: list[Row]
    covariances: list[Matrix]
    mass: Row
    assignment: list[Row]


class ClustersResponse(Response):
    """The mixture model after each iteration."""

    iterations: list[ClustersIteration]


class AttackResult(Response):
    """The predicted class before and after the attack, and the attacked image."""

    before: int
    after: int
    scores: Row
    image: Image
    perturbation: Image


class AttackResponse(Response):
    """The same attack on both networks."""

    capsules: AttackResult
    cnn: AttackResult


def to_list(values: Tensor, digits: int = 4) -> Any:
    """Nested lists of rounded numbers: unrounded ones would make the JSON three times as large.

    >>> import torch
    >>> to_list(torch.tensor([[1 / 3, 1.0]]))
    [[0.3333, 1.0]]
    """
    return values.detach().double().numpy().round(digits).tolist()


def to_json(response: Response) -> bytes:
    """The body of a response.

    >>> to_json(MeanPoint(x=0, y=0.5, class_=7))
    b'{"x":0.0,"y":0.5,"class":7}'
    """
    return response.model_dump_json(by_alias=True).encode()
