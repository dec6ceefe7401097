"""Request and response bodies of the server for predictions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

MAX_IMAGES = 64

# Described in the OpenAPI document but not validated by pydantic, whose errors would name every member of the
# union and every pixel; `torchcaps.serve.images` checks the values and says in one sentence what is wrong.
PIXEL = {"type": "integer", "minimum": 0, "maximum": 255}
ROWS = {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1, "items": PIXEL}}
IMAGE_SCHEMA = {
    "anyOf": [
        {"type": "string", "contentEncoding": "base64", "description": "an image file in base64"},
        {**ROWS, "description": "rows of gray pixels, whole numbers from 0 to 255"},
        {
            "type": "array",
            "minItems": 1,
            "items": ROWS,
            "description": "channels of rows of pixels: [C, H, W]",
        },
    ]
}


class PredictRequest(BaseModel):
    """Images to classify, of any size."""

    model_config = ConfigDict(extra="forbid")

    images: Annotated[
        list[Annotated[Any, Field(json_schema_extra=IMAGE_SCHEMA)]],
        Field(min_length=1, max_length=MAX_IMAGES),
    ]


class Response(BaseModel):
    """Base class of all responses: NaN and infinity, which JSON cannot represent, are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ImagePrediction(Response):
    """The best class of an image, its score, and the scores of the best classes, best first."""

    label: str
    score: float
    scores: dict[str, float]


class PredictResponse(Response):
    """One prediction per image, in the order of the request."""

    predictions: list[ImagePrediction]


class HealthResponse(Response):
    """Whether the server works, and what it has done since its start."""

    status: str
    seconds: float = Field(description="time since the start")
    images: int = Field(description="images that were classified")
    batches: int = Field(description="batches that these formed")
    largest_batch: int = Field(description="images in the largest batch")
    waiting: int = Field(description="images in the queue")


class Limits(Response):
    """What a request may hold, and how requests are joined."""

    max_body_mb: float
    max_pixels: int
    max_images: int
    max_batch: int
    max_wait_ms: float
    max_queue: int


class InfoResponse(Response):
    """The network, its classes and images, and the limits of this server."""

    version: str
    model: str
    options: dict[str, Any]
    num_params: int
    sha256: str = Field(description="of the weights file")
    classes: list[str]
    in_channels: int
    image_size: list[int] = Field(description="height and width; other images are scaled and cropped")
    preprocess: dict[str, Any]
    facts: dict[str, Any] = Field(description="what the weights file says about its training")
    device: str
    limits: Limits


REQUEST = TypeAdapter(PredictRequest)
