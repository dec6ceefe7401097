"""The images in the body of a request."""

from __future__ import annotations

import base64
import binascii
from io import BytesIO
from itertools import chain
from typing import Any

import numpy as np
import torch
from PIL import Image
from pydantic import ValidationError
from torch import Tensor

from torchcaps.serve.schemas import REQUEST
from torchcaps.training.prediction import Predictor
from torchcaps.web.errors import validation_message

JSON = "application/json"
# What curl sends with both -d and --data-binary, but -d removes line breaks, which an image file needs.
CURL = "application/x-www-form-urlencoded"


class UnreadableImageError(ValueError):
    """A request that holds no images, or images that cannot be read; the message says which and why."""


class ImageReader:
    """Reads the images of requests as a network's training images were.

    Args:
        predictor: the network.
        max_pixels: width times height of the largest image that is decoded.
        max_images: images in one request, at most.

    Example:
        >>> from torchcaps.models.weights import ModelCard
        >>> card = ModelCard("pooled_cnn", {}, 2, 1, (16, 16), ("cat", "dog"))
        >>> reader = ImageReader(Predictor(card.build(), card))
        >>> [image.shape for image in reader.read(b'{"images": [[[0, 255], [255, 0]]]}', JSON)]
        [torch.Size([1, 16, 16])]
    """

    def __init__(self, predictor: Predictor, *, max_pixels: int = 16_000_000, max_images: int = 64) -> None:
        self.predictor, self.max_pixels, self.max_images = predictor, max_pixels, max_images

    def read(self, body: bytes, media_type: str, invert: bool | None = None) -> list[Tensor]:
        """Read the images of one request: uint8 `[C, H, W]` of the network's size.

        Args:
            body: a `PredictRequest` as JSON, or one image file.
            media_type: the first part of the header Content-Type.
            invert: swap dark and light; by default as `Predictor.files` does.

        Raises:
            UnreadableImageError: one of the images cannot be read, or there are none.
        """
        if media_type == "multipart/form-data":
            raise UnreadableImageError(
                "body: multipart forms are not read; send one image file as the body "
                "(curl --data-binary @FILE), or several images as JSON"
            )
        if not body:
            raise UnreadableImageError("body: it is empty; send an image file, or JSON as application/json")
        if media_type != JSON:
            if body.lstrip()[:1] == b"{":
                raise UnreadableImageError("body: this looks like JSON; send it as application/json")
            try:
                return [self._decode("body", body, invert)]
            except UnreadableImageError as error:
                if media_type != CURL:
                    raise
                hint = "curl -d removes line breaks: send the file by curl --data-binary @FILE"
                raise UnreadableImageError(f"{error}; {hint}") from None
        try:
            images = REQUEST.validate_json(body).images
        except ValidationError as error:
            # As FastAPI reports it: the first part of a place is "body".
            errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
            raise UnreadableImageError(validation_message(errors)) from None
        if len(images) > self.max_images:
            raise UnreadableImageError(
                f"images: expected at most {self.max_images} images, got {len(images)}; send several requests"
            )
        return [self._convert(f"images[{index}]", image, invert) for index, image in enumerate(images)]

    def _convert(self, place: str, image: Any, invert: bool | None) -> Tensor:
        if isinstance(image, str):
            text = image.partition(",")[2] if image.startswith("data:") else image
            try:
                return self._decode(place, base64.b64decode(text, validate=True), invert)
            except (binascii.Error, ValueError) as error:
                if isinstance(error, UnreadableImageError):
                    raise
                raise UnreadableImageError(f"{place}: the text is not base64 ({error})") from None
        pixels = to_pixels(place, image)
        channels = len(pixels)
        card = self.predictor.card
        if pixels.shape == (card.in_channels, *card.image_size):
            return self.predictor.with_background(torch.from_numpy(pixels), invert)
        if channels not in (1, 3):
            raise UnreadableImageError(
                f"{place}: expected 1 or 3 channels, or {card.in_channels} of {card.image_size[0]} rows of "
                f"{card.image_size[1]} pixels, got {list(pixels.shape)}"
            )
        # As a file in memory, so that it is scaled and converted exactly as an image file is.
        file = BytesIO()
        Image.fromarray(pixels[0] if channels == 1 else pixels.transpose(1, 2, 0)).save(file, "PPM")
        return self._decode(place, file.getvalue(), invert)

    def _decode(self, place: str, content: bytes, invert: bool | None) -> Tensor:
        try:
            return self.predictor.read(place, invert=invert, max_pixels=self.max_pixels, content=content)
        except ValueError as error:
            raise UnreadableImageError(str(error)) from None


def to_pixels(place: str, rows: Any) -> np.ndarray:
    """Nested lists as uint8 `[C, H, W]`.

    >>> to_pixels("images[0]", [[0, 255]]).shape
    (1, 1, 2)
    >>> to_pixels("images[0]", [[0.5, 1]])
    Traceback (most recent call last):
    torchcaps.serve.images.UnreadableImageError: images[0]: pixels are whole numbers from 0 to 255, got 0.5
    """
    try:
        pixels = np.array(rows) if isinstance(rows, list) else None
    except (ValueError, OverflowError):
        pixels = None
    if pixels is None or pixels.ndim not in (2, 3) or not pixels.size:
        raise UnreadableImageError(
            f"{place}: expected an image file in base64, or rows of pixels of one length: [H, W] or [C, H, W]"
        )
    values = rows
    for _ in range(pixels.ndim - 1):
        values = chain.from_iterable(values)
    for value in values:
        if type(value) is not int or not 0 <= value <= 255:  # not isinstance: a bool is an int for Python
            shown = str(value)[:40]
            raise UnreadableImageError(f"{place}: pixels are whole numbers from 0 to 255, got {shown}")
    return pixels.astype(np.uint8).reshape(-1, *pixels.shape[-2:])
