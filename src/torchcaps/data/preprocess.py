from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from torchcaps._checks import check_count, check_flag, check_number
from torchcaps._registry import suggest
from torchcaps.data import transforms


@dataclass(frozen=True)
class Preprocess:
    """Preparation and augmentation of images between the data set and the model.

    The steps, in this order:

    1. `resize`: scale to this side.
    2. uint8 becomes float 0..1; then, with `standardize`, zero mean and unit variance per image.
    3. `rotate` and `scale`: rotate by up to ± so many degrees and scale by 1 ± this; only in training.
    4. `translate`: shift by up to ± so many pixels; only in training.
    5. `crop`: cut out a window of this side, at a random place in training, at the center in evaluation.
    6. `brightness` and `contrast`: change by up to ± these; only in training. The result is clipped to 0..1
       unless standardized.
    7. `flip`: swap left and right in half of the images; only in training.

    The order is that of the published smallNORB experiments: standardize the complete image, then crop, then
    change brightness and contrast.

    Example:
        >>> smallnorb = Preprocess.from_options({"crop": 32, "contrast": 0.2, "standardize": True})
        >>> images = torch.zeros(4, 2, 48, 48, dtype=torch.uint8)
        >>> smallnorb.train(images, smallnorb.draw(4, torch.Generator())).shape, smallnorb.test(images).shape
        (torch.Size([4, 2, 32, 32]), torch.Size([4, 2, 32, 32]))
    """

    resize: int | None = None
    standardize: bool = False
    translate: int = 0
    crop: int | None = None
    brightness: float = 0.0
    contrast: float = 0.0
    flip: bool = False
    rotate: float = 0.0
    scale: float = 0.0

    def __post_init__(self) -> None:
        for name in ("resize", "crop"):
            if getattr(self, name) is not None:
                check_count(f"preprocessing option {name!r}", getattr(self, name))
        check_count("preprocessing option 'translate'", self.translate, 0)
        for name in ("brightness", "contrast", "rotate", "scale"):
            check_number(f"preprocessing option {name!r}", getattr(self, name))
        if self.scale >= 1:
            raise ValueError(f"preprocessing option 'scale' must be less than 1, got {self.scale!r}")
        for name in ("standardize", "flip"):
            check_flag(f"preprocessing option {name!r}", getattr(self, name))
        if self.resize is not None and self.crop is not None and self.crop > self.resize:
            raise ValueError(f"crop = {self.crop} does not fit into resize = {self.resize}")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Preprocess:
        """Build from a recipe's table, such as `{translate = 2}`.

        >>> Preprocess.from_options({"transalte": 2})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: unknown preprocessing option 'transalte': did you mean 'translate'? Known: brightness, ...
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise ValueError(f"unknown preprocessing option {name!r}: {suggest(name, known)}")
        return cls(**options)

    def output_size(self, image_size: tuple[int, int]) -> tuple[int, int]:
        """Height and width of the prepared images.

        >>> Preprocess(crop=32).output_size((48, 48))
        (32, 32)
        """
        side = self.crop or self.resize
        return (side, side) if side else image_size

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw the random numbers for `count` training images: float32 `[count, 6 to 9]` on the CPU."""
        # Later options have later columns, so that recipes without them keep giving the same images.
        columns = 9 if self.rotate or self.scale else 7 if self.flip else 6
        return torch.rand(count, columns, generator=generator)

    def train(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Prepare and augment images `[B, C, H, W]` by the `numbers` of `draw`: float `[B, C, h, w]`."""
        images, numbers = self._always(images), numbers.to(images.device)
        if self.rotate or self.scale:
            images = transforms.rotate(images, self.rotate, self.scale, numbers[:, 7:9])
        if self.translate:
            images = transforms.translate(images, self.translate, numbers[:, 0:2])
        if self.crop is not None:
            images = transforms.crop(images, self.crop, numbers[:, 2:4])
        if self.brightness or self.contrast:
            images = transforms.adjust_brightness_contrast(
                images, self.brightness, self.contrast, numbers[:, 4:6]
            )
            if not self.standardize:
                images = images.clamp_(0, 1)
        return transforms.flip(images, numbers[:, 6]) if self.flip else images

    def test(self, images: Tensor) -> Tensor:
        """Prepare images `[B, C, H, W]` for evaluation: float `[B, C, h, w]`."""
        images = self._always(images)
        return images if self.crop is None else transforms.center_crop(images, self.crop)

    def test_crops(self, images: Tensor, per_side: int = 3) -> Tensor:
        """Prepare `per_side`² crops of each image, to average the model's outputs over: `[B, K, C, h, w]`."""
        if self.crop is None:
            raise ValueError("several crops need the preprocessing option 'crop'")
        return transforms.grid_crops(self._always(images), self.crop, per_side)

    def _always(self, images: Tensor) -> Tensor:
        if self.resize is not None:
            images = transforms.resize(images, self.resize)
        return transforms.standardize(images) if self.standardize else transforms.to_float(images)
