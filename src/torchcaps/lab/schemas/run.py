"""Bodies of the view of a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from torchcaps.lab.schemas.images import PackedImage
from torchcaps.lab.schemas.requests import Request
from torchcaps.lab.schemas.responses import Response, Row

State = Literal["running", "finished", "stopped"]
# Of a file in base64, so that a request stays below the limit of the server.
MAX_FILE = 950_000


class RunResponse(Response):
    """A run: what is trained on what, whether it goes on, and its network if there are weights.

    `step` is that of the weights, `null` while there are none.
    """

    name: str
    state: State
    model: str
    data: str
    epochs: int
    network: str | None
    step: int | None
    classes: list[str]
    in_channels: int | None
    image_size: list[int] | None


class RunPoint(Response):
    """A line of the run's metrics.

    `loss`, `accuracy`, `lr` and `images_per_second` are over the steps since the previous line; `epoch_loss`
    and `epoch_accuracy` over one epoch of training; `test_loss` and `test_accuracy` are of the validation
    images if there are some.
    """

    step: int
    epoch: int
    loss: float | None = None
    accuracy: float | None = None
    lr: float | None = None
    images_per_second: float | None = None
    epoch_loss: float | None = None
    epoch_accuracy: float | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None


class RunMetricsResponse(Response):
    """What was written since the last request.

    `next` and `session` are for the next request; with `reset`, earlier points no longer hold.
    """

    state: State
    points: list[RunPoint]
    next: int
    session: int
    reset: bool


class RunImageRequest(Request):
    """An image for the network of the run: pixels, or an image file in base64."""

    image: PackedImage | None = None
    file: Annotated[str, Field(max_length=MAX_FILE)] | None = None

    @model_validator(mode="after")
    def check_input(self) -> RunImageRequest:
        """There is exactly one input."""
        if (self.image is None) == (self.file is None):
            raise ValueError("expected either an image or a file")
        return self


class PathNode(Response):
    """A capsule, and those below that give it most.

    `share` is its part of all that its parent gets, `coupling` how much of it goes there.
    """

    name: str
    presence: float
    coupling: float | None
    share: float | None
    position: list[int] | None
    box: list[int] | None
    children: list[PathNode]


class ClassMap(Response):
    """Where in the image the primary capsules are that send to a class, as a mask of its pixels."""

    kind: int
    mask: PackedImage


class RunImageResponse(Response):
    """What the network of the run says about an image.

    `activations` and `norms` are those of the class capsules and their poses; `null` for a CNN.
    `map_range` is what masks of 0 and of 1 stand for.
    """

    seen: PackedImage
    best: int
    scores: Row
    activations: Row | None
    norms: Row | None
    pose_dim: int | None
    paths: list[PathNode]
    maps: list[ClassMap]
    map_range: Row | None
    reconstruction: PackedImage | None
