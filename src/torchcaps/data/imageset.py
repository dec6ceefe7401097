from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImageSet:
    """Images in memory with what is known about them.

    - `images`: uint8 `[N, C, H, W]`.
    - `labels`: int64 `[N]`, or `[N, K]` where an image holds K objects (two digits).
    - `classes`: the name of each class, in the order of the labels.
    - `metadata`: further facts per image, each a tensor whose first dimension is N.

    >>> digits = ImageSet(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1]), ("a", "b"))
    >>> len(digits), digits.num_classes, digits.image_size, digits.in_channels
    (2, 2, (8, 8), 1)
    >>> len(digits.select(digits.labels == 1))
    1
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    metadata: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ValueError(
                f"images must be uint8 [N, C, H, W], got {self.images.dtype} {list(self.images.shape)}"
            )
        if self.labels.dtype != torch.int64 or self.labels.ndim not in (1, 2):
            raise ValueError(
                f"labels must be int64 [N] or [N, K], got {self.labels.dtype} {list(self.labels.shape)}"
            )
        for name, values in {"labels": self.labels, **self.metadata}.items():
            if len(values) != len(self.images):
                raise ValueError(f"{name} has {len(values)} rows for {len(self.images)} images")
        if self.labels.numel() and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(
            self.classes
        ):
            raise ValueError(
                f"labels run from {int(self.labels.min())} to {int(self.labels.max())} "
                f"but there are {len(self.classes)} classes"
            )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def in_channels(self) -> int:
        """Channels per image."""
        return self.images.shape[1]

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width."""
        return self.images.shape[2], self.images.shape[3]

    def select(self, which: Tensor) -> ImageSet:
        """Keep the images that a boolean mask or an index tensor picks, with their labels and metadata."""
        return ImageSet(
            self.images[which],
            self.labels[which],
            self.classes,
            {name: values[which] for name, values in self.metadata.items()},
        )
