"""Bodies of the comparison of two networks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from torchcaps.lab.schemas.images import PackedImage
from torchcaps.lab.schemas.requests import Request, ToyRequest
from torchcaps.lab.schemas.responses import Response, Row

NetworkId = Annotated[str, Field(min_length=1, max_length=100)]


class CompareRequest(Request):
    """Two networks, and one input for both: an image or a toy to render."""

    networks: Annotated[list[NetworkId], Field(min_length=2, max_length=2)]
    image: PackedImage | None = None
    toy: ToyRequest | None = None
    attack: Literal["none", "fgsm", "pgd"] = "none"
    epsilon: Annotated[float, Field(strict=True, ge=0, le=0.5, allow_inf_nan=False)] = 0.1

    @model_validator(mode="after")
    def check_input(self) -> CompareRequest:
        """There is exactly one input."""
        if (self.image is None) == (self.toy is None):
            raise ValueError("expected either an image or a toy")
        return self


class AttackedImage(Response):
    """A network's scores for an attacked image."""

    best: int
    scores: Row
    image: PackedImage


class ComparedNetwork(Response):
    """What one network says; `seen` is the image in the size that it got."""

    id: str
    best: int
    scores: Row
    seen: PackedImage
    reconstruction: PackedImage | None
    attacked: AttackedImage | None


class CompareResponse(Response):
    """What both networks say about the same input."""

    networks: list[ComparedNetwork]


class ExampleInput(Response):
    """An image to start from, and what it shows."""

    label: str
    image: PackedImage


class InputsResponse(Response):
    """Images that suit a network; `source` is where they come from."""

    source: str
    images: list[ExampleInput]
