from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.data import Dataset

Item = tuple[Tensor, "int | Tensor"]
"""An image uint8 `[C, H, W]` and its label: a class number, or int64 `[K]` if the image holds K objects."""


# Compared by identity: two sets are rarely equal, and comparing all pixels would be slow.
@dataclass(frozen=True, eq=False)
class ImageSet(Dataset[Item]):
    """A labeled image data set in memory, and a `torch.utils.data.Dataset` of (image, label) pairs.

    Attributes:
        images: uint8 `[N, C, H, W]`.
        labels: int64 `[N]`, or `[N, K]` where each image holds K objects.
        classes: the name of each class, in the order of the labels.
        metadata: more facts about each image, as tensors whose first dimension is N.
        pad: whether image files were padded to the size of these images rather than cropped; a model that is
            trained on them reads new files in the same way.

    Example:
        >>> digits = ImageSet(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1]), ("a", "b"))
        >>> digits
        ImageSet(2 images of 1×8×8, 2 classes: a, b)
        >>> len(digits), digits.num_classes, digits.image_size, digits.in_channels
        (2, 2, (8, 8), 1)
        >>> image, label = digits[1]
        >>> image.shape, label
        (torch.Size([1, 8, 8]), 1)
        >>> len(digits.select(digits.labels == 1))
        1
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    metadata: Mapping[str, Tensor] = field(default_factory=dict)
    pad: bool = False

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ValueError(
                f"images must be uint8 [N, C, H, W], got {self.images.dtype} {list(self.images.shape)}"
            )
        check_labels(self.labels, len(self.images), len(self.classes))
        for name, values in self.metadata.items():
            if len(values) != len(self.images):
                raise ValueError(f"{name} has {len(values)} rows for {len(self.images)} images")

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        shape = "×".join(str(size) for size in self.images.shape[1:])
        names = ", ".join(self.classes[:10]) + (", …" if self.num_classes > 10 else "")
        return f"{type(self).__name__}({len(self)} images of {shape}, {self.num_classes} classes: {names})"

    def __getitem__(self, index: int) -> Item:
        return self.images[index], item_label(self.labels, index)

    @property
    def in_memory(self) -> bool:
        """True; an `ImageFileSet` says False."""
        return True

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
        """Keep the images that a boolean mask `[N]` or an index tensor selects, with labels and metadata."""
        return ImageSet(
            self.images[which],
            self.labels[which],
            self.classes,
            {name: values[which] for name, values in self.metadata.items()},
            self.pad,
        )


def concatenate(parts: Sequence[ImageSet]) -> ImageSet:
    """Join sets that have the same classes and metadata.

    >>> digit = ImageSet(torch.zeros(1, 1, 8, 8, dtype=torch.uint8), torch.tensor([0]), ("a",))
    >>> len(concatenate([digit, digit]))
    2
    """
    if len(parts) == 1:
        return parts[0]
    return ImageSet(
        torch.cat([part.images for part in parts]),
        torch.cat([part.labels for part in parts]),
        parts[0].classes,
        {name: torch.cat([part.metadata[name] for part in parts]) for name in parts[0].metadata},
        parts[0].pad,
    )


def check_labels(labels: Tensor, num_images: int, num_classes: int) -> None:
    """Check that labels are int64 `[N]` or `[N, K]`, one row per image, and name classes that exist."""
    if labels.dtype != torch.int64 or labels.ndim not in (1, 2):
        raise ValueError(f"labels must be int64 [N] or [N, K], got {labels.dtype} {list(labels.shape)}")
    if len(labels) != num_images:
        raise ValueError(f"labels has {len(labels)} rows for {num_images} images")
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise ValueError(
            f"labels run from {int(labels.min())} to {int(labels.max())} but there are {num_classes} classes"
        )


def item_label(labels: Tensor, index: int) -> int | Tensor:
    """The label of one image: a number of `[N]` labels, a row of `[N, K]` labels."""
    return int(labels[index]) if labels.ndim == 1 else labels[index]
