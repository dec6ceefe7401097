"""Response bodies: views build them, which validates them. What is sent agrees with the OpenAPI document."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, uint8

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


class SceneRanges(Response):
    """The scenes of a world that a network was tested on: one whole each, at all angles.

    `scale` is the range of its size, and `offset` that of its distance from the middle of the image, both in
    halves of the image.
    """

    size: int
    scale: TwoFractions
    offset: TwoFractions


class ModelInfo(Response):
    """A network whose weights are loaded, and its test metrics.

    `scores` says what its scores are: `lengths` of capsules, `independent` numbers of one class each, or a
    `softmax`, which adds up to 1. `tested` is `null` for networks that read no scenes of parts and wholes.
    """

    id: str
    model: str
    data: str
    recipe: str | None
    num_params: int
    metrics: dict[str, float]
    classes: list[str]
    in_channels: int
    image_size: TwoSizes
    decoder: bool
    scores: Literal["lengths", "independent", "softmax"]
    tested: SceneRanges | None = None


class ClassNames(Response):
    """The names of the classes."""

    digits: list[str]
    toys: list[str]


class StatusResponse(Response):
    """Version, kernels, loaded networks and class names; `run` is the name of the run that was given."""

    version: str
    kernels: str
    models: list[ModelInfo]
    classes: ClassNames
    run: str | None = None


class ExampleDigit(Response):
    """A digit of the MNIST test set."""

    label: int
    image: Image


class ExamplesResponse(Response):
    """Example digits."""

    digits: list[ExampleDigit]


class FieldCenters(Response):
    """The receptive fields: the pixel at the center of the first, the distance to the next, their width."""

    first: float
    step: float
    size: int


class CapsuleResponse(Response):
    """A primary capsule: its place and length, and its vote for each class.

    `products` are the scalar products of the votes with the class capsules of each iteration. `shares` says
    how much of its vote the capsule sends to each class in each iteration: with dynamic routing, the softmax
    of the sum of the products of all iterations before.
    """

    row: int
    column: int
    type: int
    length: float
    votes: Matrix
    products: Matrix
    shares: Matrix


class DrawResponse(Response):
    """What each stage of the network computes for a digit.

    `features` are the strongest maps of the first convolution, scaled to 0..1; `primary` has a grid of
    lengths for each type of primary capsule; `history` has the class capsules of each iteration, of which
    `poses` are the last; `capsule` is the primary capsule that sends most to the longest class capsule.
    """

    best: int
    lengths: Row
    reconstruction: Image
    pose: Row
    poses: list[Row]
    history: list[list[Row]]
    num_features: int
    features: list[Image]
    primary: list[Matrix]
    grid: TwoSizes
    field_centers: FieldCenters
    couplings: list[list[Matrix]]
    capsule: CapsuleResponse
    elapsed_ms: float


class TweakResponse(Response):
    """The reconstruction from a pose, and from that pose with one number changed.

    `strips` has an image for each number and each of `offsets`, which are added to it: bytes row by row in
    base64.
    """

    reconstruction: Image
    offsets: Row
    strips: str


class CapsulePair(Response):
    """The two longest capsules, each with its own reconstruction, and which of them gets the votes.

    `lead` says how much more each position of the grid sends to the first than to the second in the last
    iteration, with the largest difference scaled to 1 or -1; `factor` is the largest factor between the two.
    """

    best: TwoClasses
    lengths: Row
    reconstructions: list[Image]
    lead: Matrix
    factor: float
    field_centers: FieldCenters


class ScorePair(Response):
    """The two classes with the highest scores."""

    best: TwoClasses
    scores: Row


class OverlapResponse(Response):
    """Predictions of both networks for two overlapping digits."""

    capsules: CapsulePair
    cnn: ScorePair


class VotesIteration(Response):
    """One iteration of the routing.

    `activation`, `agreement` (the mean over all votes, by weight) and `share` (of all weight) have one number
    for each class. `agreements` and `couplings` have a row for each shown class, with one number for each
    child capsule. `typical` is what the median child sends to the class that gets most of it, and `favorites`
    names this class for each child: -1 if the child sends equally much to several.
    """

    activation: Row
    agreement: Row
    share: Row
    agreements: Matrix
    couplings: Matrix
    typical: float
    favorites: list[int]


class VotesResponse(Response):
    """How well the votes of a network's last layer agree with the classes, in each iteration of its routing.

    `measure` names what the routing calls agreement. `shown` are the classes with the highest activations in
    the last iteration. `parts` says how much each child counts in means and shares: its activation, or 1
    where the routing does not use it.
    """

    routing: str
    measure: str
    model: str
    data: str
    shown: list[int]
    parts: Row
    iterations: list[VotesIteration]


class TwinsResponse(Response):
    """The same for each of several networks that differ in their routing."""

    twins: list[VotesResponse]


class TrainingViews(Response):
    """Viewpoints and instances of the training set."""

    azimuths: Row
    elevations: Row
    instances: list[int]


class Share(Response):
    """A measured share, and its 95 % confidence interval (Wilson 1927)."""

    share: float
    low: float
    high: float


class ToyAccuracy(Response):
    """The share of test toys that each network gets right, for each azimuth, and how many toys there are."""

    count: list[int]
    capsules: list[Share]
    cnn: list[Share]


class ToysResponse(Response):
    """Available toys and viewpoints, those used in training, and the measured accuracy around the ring."""

    categories: list[str]
    instances: int
    azimuths: Row
    elevations: Row
    lightings: list[int]
    trained: TrainingViews
    accuracy: ToyAccuracy


class ClassScores(Response):
    """The predicted class, and the softmax over the logits."""

    best: int
    scores: Row


class ToyCapsules(ClassScores):
    """Class scores, and the pose matrix of the toy's own class."""

    pose: Matrix
    pose_size: int


class ToyResponse(Response):
    """A rendered stereo pair, and the predictions of both networks."""

    image: list[Image]
    capsules: ToyCapsules
    cnn: ClassScores


class ToyTurnResponse(Response):
    """The pose of a toy's own class from every azimuth.

    `turn_moves` is the largest distance between two of these poses, `light_moves` that between two lightings
    from the viewpoint of the request; both are shares of the mean norm.
    """

    azimuths: Row
    poses: Matrix
    turn_moves: float
    light_moves: float


class ClustersIteration(Response):
    """The mixture model after one iteration; `log_likelihood` is per point, `null` for k-means.

    A mean has the coordinates of one point; for `rows` of two, which share the covariance. A point without a
    partner has an assignment of zeros.
    """

    log_likelihood: float | None
    means: list[Row]
    covariances: list[Matrix]
    mass: Row
    assignment: list[Row]


class ClustersResponse(Response):
    """The best of several starts: the mixture model after each iteration."""

    iterations: list[ClustersIteration]


class AttackCurve(Response):
    """What one network makes of the attacked images, one for each ε.

    `changes_at` is the smallest ε with another prediction than `before`, or `null`. `scores` has a row for
    each ε; `images` are bytes row by row in base64.
    """

    before: int
    after: list[int]
    changes_at: float | None
    scores: Matrix
    images: str


class AttackResponse(Response):
    """The same attack on both networks."""

    epsilons: Row
    steps: int
    capsules: AttackCurve
    cnn: AttackCurve


def to_list(values: Tensor, digits: int = 4) -> Any:
    """Nested lists of rounded numbers: unrounded ones would make the JSON three times as large.

    >>> import torch
    >>> to_list(torch.tensor([[1 / 3, 1.0]]))
    [[0.3333, 1.0]]
    """
    return values.detach().double().numpy().round(digits).tolist()


def to_bytes(images: Tensor) -> str:
    """Numbers from 0 to 1 as bytes in base64: many images as JSON numbers would be five times as large.

    >>> import torch
    >>> to_bytes(torch.tensor([0.0, 1.0]))
    'AP8='
    """
    return b64encode((images.detach().clamp(0, 1) * 255).round().to(uint8).numpy().tobytes()).decode()


def to_json(response: Response) -> bytes:
    """The body of a response.

    >>> to_json(FieldCenters(first=8, step=2, size=17))
    b'{"first":8.0,"step":2.0,"size":17}'
    """
    return response.model_dump_json().encode()
