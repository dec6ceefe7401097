from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any

import torch
from torch import Tensor

from torchcaps.data import augment
from torchcaps.registry import suggest


@dataclass(frozen=True)
class Preprocess:
    """What happens to images between the data set and the model, in this order.

    1. `resize`: scaled to this side, always.
    2. uint8 becomes float 0..1, always; then, with `standardise`, zero mean and unit variance per image.
    3. `turn` and `zoom`: turned by ± so many degrees and scaled by 1 ± this, in training.
    4. `shift`: moved by up to so many pixels, in training.
    5. `crop`: a window of this side, at a random place in training and from the middle in test.
    6. `brightness` and `contrast`: varied by ± these, in training; kept within 0..1 unless standardised.
    7. `flip`: left and right swapped in half of the images, in training.

    The order is that of the published smallNORB experiments: standardised as a whole, then cropped, then
    varied.

    >>> smallnorb = Preprocess.from_options({"crop": 32, "contrast": 0.2, "standardise": True})
    >>> images = torch.zeros(4, 2, 48, 48, dtype=torch.uint8)
    >>> smallnorb.train(images, smallnorb.draw(4, torch.Generator())).shape, smallnorb.test(images).shape
    (torch.Size([4, 2, 32, 32]), torch.Size([4, 2, 32, 32]))
    """

    resize: int | None = None
    standardise: bool = False
    shift: int = 0
    crop: int | None = None
    brightness: float = 0.0
    contrast: float = 0.0
    flip: bool = False
    turn: float = 0.0
    zoom: float = 0.0

    def __post_init__(self) -> None:
        for name in ("resize", "crop"):
            self._check(name, getattr(self, name), (int,), at_least=1, optional=True)
        self._check("shift", self.shift, (int,), at_least=0)
        self._check("brightness", self.brightness, (int, float), at_least=0)
        self._check("contrast", self.contrast, (int, float), at_least=0)
        self._check("turn", self.turn, (int, float), at_least=0)
        self._check("zoom", self.zoom, (int, float), at_least=0)
        if self.zoom >= 1:
            raise ValueError(f"preprocessing option 'zoom' must be less than 1, got {self.zoom!r}")
        for name in ("standardise", "flip"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(
                    f"preprocessing option {name!r} must be true or false, got {getattr(self, name)!r}"
                )
        if self.resize is not None and self.crop is not None and self.crop > self.resize:
            raise ValueError(f"crop = {self.crop} does not fit into resize = {self.resize}")

    @staticmethod
    def _check(name: str, value: Any, types: tuple, at_least: int, optional: bool = False) -> None:
        if optional and value is None:
            return
        if isinstance(value, bool) or not isinstance(value, types) or not at_least <= value < inf:
            kind = "a whole number" if types == (int,) else "a number"
            raise ValueError(
                f"preprocessing option {name!r} must be {kind} of at least {at_least}, got {value!r}"
            )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Preprocess:
        """Build from a recipe's table, such as `{shift = 2}`.

        >>> Preprocess.from_options({"shfit": 2})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: unknown preprocessing option 'shfit': did you mean 'shift'? Known: brightness, ...
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise ValueError(f"unknown preprocessing option {name!r}: {suggest(name, known)}")
        return cls(**options)

    def output_size(self, image_size: tuple[int, int]) -> tuple[int, int]:
        """Say what height and width the model will see.

        >>> Preprocess(crop=32).output_size((48, 48))
        (32, 32)
        """
        side = self.crop or self.resize
        return (side, side) if side else image_size

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw the random numbers for `count` training images: float32 `[count, 6 to 9]` on the CPU."""
        # As few as before an option was added, so that recipes without it go on giving what they gave.
        columns = 9 if self.turn or self.zoom else 7 if self.flip else 6
        return torch.rand(count, columns, generator=generator)

    def train(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Prepare uint8 `[B, C, H, W]` for training as `numbers` of `draw` choose: float `[B, C, h, w]`."""
        images, numbers = self._always(images), numbers.to(images.device)
        if self.turn or self.zoom:
            images = augment.turn_with(images, self.turn, self.zoom, numbers[:, 7:9])
        if self.shift:
            images = augment.shift_with(images, self.shift, numbers[:, 0:2])
        if self.crop is not None:
            images = augment.crop_with(images, self.crop, numbers[:, 2:4])
        if self.brightness or self.contrast:
            images = augment.brightness_contrast_with(images, self.brightness, self.contrast, numbers[:, 4:6])
            if not self.standardise:
                images = images.clamp_(0, 1)
        return augment.flip_with(images, numbers[:, 6]) if self.flip else images

    def test(self, images: Tensor) -> Tensor:
        """Prepare uint8 images `[B, C, H, W]` for evaluation: float `[B, C, h, w]`."""
        images = self._always(images)
        return images if self.crop is None else augment.centre_crop(images, self.crop)

    def test_crops(self, images: Tensor, per_side: int = 3) -> Tensor:
        """Prepare `per_side`² crops of each image, whose outputs are to be averaged: `[B, K, C, h, w]`."""
        if self.crop is None:
            raise ValueError("several crops need the preprocessing option 'crop'")
        return augment.grid_crops(self._always(images), self.crop, per_side)

    def _always(self, images: Tensor) -> Tensor:
        if self.resize is not None:
            images = augment.resize(images, self.resize)
        return augment.standardise(images) if self.standardise else augment.to_float(images)
