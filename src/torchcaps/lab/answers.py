"""What is answered, for the API's document and its tests."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

# A list rather than a tuple, whose schema not every reader of OpenAPI understands.
TwoClasses = Annotated[list[int], Field(min_length=2, max_length=2)]
TwoSizes = Annotated[list[int], Field(min_length=2, max_length=2)]
TwoShares = Annotated[list[float], Field(min_length=2, max_length=2)]

Row = list[float]
Image = list[Row]


class Fault(BaseModel):
    """Why there is no answer, in a sentence."""

    detail: str


class KnownModel(BaseModel):
    """A network that the lab has weights for."""

    model: str
    data: str
    weights: int
    metrics: dict[str, float]


class Names(BaseModel):
    """What the classes are called."""

    digits: list[str]
    toys: list[str]


class StatusAnswer(BaseModel):
    """What the lab runs on."""

    version: str
    kernels: str
    models: list[KnownModel]
    classes: Names


class ExampleDigit(BaseModel):
    """A digit of the MNIST test set."""

    label: int
    image: Image


class ExamplesAnswer(BaseModel):
    """Digits to begin with."""

    digits: list[ExampleDigit]


class Places(BaseModel):
    """Where the cells of a grid lie in the image: the pixel of the first one's center, pixels to the next."""

    first: float
    step: float


class DrawAnswer(BaseModel):
    """Lengths, poses and couplings of the class capsules, and the best one drawn."""

    best: int
    lengths: Row
    reconstruction: Image
    pose: Row
    poses: list[Row]
    grid: TwoSizes
    places: Places
    couplings: list[list[Image]]
    elapsed_ms: float


class TweakAnswer(BaseModel):
    """What a pose looks like."""

    reconstruction: Image


class TwoCapsules(BaseModel):
    """The two best capsules, each drawn."""

    best: TwoClasses
    lengths: Row
    reconstructions: list[Image]


class TwoScores(BaseModel):
    """The two best classes of a CNN."""

    best: TwoClasses
    scores: Row


class OverlapAnswer(BaseModel):
    """Two digits as capsules and as a CNN read them."""

    capsules: TwoCapsules
    cnn: TwoScores


class VotePoint(BaseModel):
    """A vote in the plane: of which child, for which class."""

    x: float
    y: float
    class_: int
    child: int

    model_config = {"alias_generator": lambda name: name.rstrip("_"), "populate_by_name": True}


class MeanPoint(BaseModel):
    """Where a class capsule stands among its votes."""

    x: float
    y: float
    class_: int

    model_config = {"alias_generator": lambda name: name.rstrip("_"), "populate_by_name": True}


class Histogram(BaseModel):
    """Distances of votes to their mean, by class, counted by assignment."""

    edges: Row
    counts: dict[str, Row]


class VotesIteration(BaseModel):
    """The clusters after one iteration."""

    means: list[MeanPoint]
    weight: Row
    activation: Row
    histogram: Histogram


class VotesAnswer(BaseModel):
    """Votes of the last layer on two fixed axes, iteration by iteration."""

    classes: list[str]
    best: int
    points: list[VotePoint]
    iterations: list[VotesIteration]
    explained: TwoShares


class TrainedViews(BaseModel):
    """What the networks saw in training."""

    azimuths: Row
    elevations: Row
    instances: list[int]


class ToysAnswer(BaseModel):
    """The toys there are, and where they can be seen from."""

    categories: list[str]
    instances: int
    azimuths: Row
    elevations: Row
    lightings: list[int]
    trained: TrainedViews


class ToyCapsules(BaseModel):
    """The share that each class has by the capsules' logits, and the best one's pose matrix."""

    best: int
    scores: Row
    pose: Image
    pose_size: int


class BestScores(BaseModel):
    """What a CNN says."""

    best: int
    scores: Row


class ToyAnswer(BaseModel):
    """A toy as two eyes see it, and what the networks say."""

    image: list[Image]
    capsules: ToyCapsules
    cnn: BestScores


class ClustersIteration(BaseModel):
    """The mixture after one iteration."""

    means: list[Row]
    covariances: list[Image]
    mass: Row
    assignment: list[Row]


class ClustersAnswer(BaseModel):
    """The mixture, iteration by iteration."""

    iterations: list[ClustersIteration]


class Attacked(BaseModel):
    """A verdict before and after, and what was done to the image."""

    before: int
    after: int
    scores: Row
    image: Image
    perturbation: Image


class AttackAnswer(BaseModel):
    """The same attack on both networks."""

    capsules: Attacked
    cnn: Attacked
