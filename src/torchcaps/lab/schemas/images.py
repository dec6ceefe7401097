"""Images of any size and number of channels, packed into text."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

MAX_SIDE = 512
Side = Annotated[int, Field(strict=True, ge=1, le=MAX_SIDE)]


class PackedImage(BaseModel):
    """Pixels as bytes, channel by channel and row by row, in base64."""

    model_config = ConfigDict(extra="forbid")

    channels: Annotated[int, Field(strict=True, ge=1, le=4)]
    height: Side
    width: Side
    pixels: Annotated[str, Field(max_length=700_000)]

    @model_validator(mode="after")
    def check_pixels(self) -> PackedImage:
        """Reject text that is not the right number of bytes."""
        expected = self.channels * self.height * self.width
        if len(self.decode()) != expected:
            raise ValueError(
                f"expected {expected} bytes in base64: {self.channels} channels of {self.height} rows of "
                f"{self.width} pixels"
            )
        return self

    def decode(self) -> bytes:
        """The bytes of the pixels; none if the text is not base64."""
        try:
            return base64.b64decode(self.pixels, validate=True)
        except (binascii.Error, ValueError):
            return b""

    def tensor(self) -> Tensor:
        """The pixels as uint8 `[C, H, W]`.

        >>> PackedImage.of(torch.tensor([[[0.0, 1.0]]])).tensor()
        tensor([[[  0, 255]]], dtype=torch.uint8)
        """
        values = np.frombuffer(self.decode(), np.uint8).reshape(self.channels, self.height, self.width)
        return torch.from_numpy(values.copy())

    @classmethod
    def of(cls, image: Tensor) -> PackedImage:
        """Pack an image `[C, H, W]`, uint8 or float in 0..1."""
        if image.is_floating_point():
            image = (image.detach().clamp(0, 1) * 255).round().to(torch.uint8)
        channels, height, width = image.shape
        text = base64.b64encode(image.contiguous().numpy().tobytes()).decode()
        return cls(channels=channels, height=height, width=width, pixels=text)
