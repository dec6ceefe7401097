from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from torchcaps.data.formats.images import MAX_PIXELS, read_image
from torchcaps.data.imageset import ImageSet, Item, check_labels, item_label


class ImageFileSet(Dataset[Item]):
    """A labeled image data set whose images stay in their files and are decoded when they are used.

    For sets that are too large for memory. It has the attributes of an `ImageSet` except `images`, and
    `make_batches` decodes its images in worker processes.

    Args:
        paths: N image files.
        labels: int64 `[N]`, or `[N, K]` where each image holds K objects.
        classes: the name of each class, in the order of the labels.
        image_size: height and width that images are brought to.
        gray: whether images have one channel rather than three.
        max_pixels: width times height of the largest file that is decoded.
        pad: whether images of another shape are padded rather than cropped at the center.

    Example:
        >>> files = ImageFileSet(["a.png", "b.png"], torch.tensor([0, 1]), ("cat", "dog"), (64, 64))
        >>> len(files), files.in_channels, files.num_bytes, files.path(1)
        (2, 3, 24576, 'b.png')
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        labels: Tensor,
        classes: tuple[str, ...],
        image_size: tuple[int, int],
        *,
        gray: bool = False,
        max_pixels: int = MAX_PIXELS,
        pad: bool = False,
    ) -> None:
        check_labels(labels, len(paths), len(classes))
        # One array rather than N Python objects, whose reference counts would make every forked worker
        # process copy the memory pages that hold them.
        self._paths = np.array([os.fsencode(path) for path in paths], dtype=np.bytes_)
        self.labels = labels
        self.classes = classes
        self.image_size = image_size
        self.gray = gray
        self.max_pixels = max_pixels
        self.pad = pad

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Item:
        """Decode one image.

        Raises:
            DataError: the file is damaged or too large; the message names it.
        """
        return self._read(index), item_label(self.labels, index)

    def path(self, index: int) -> str:
        """The file of one image."""
        return os.fsdecode(bytes(self._paths[index]))

    @property
    def in_memory(self) -> bool:
        """False; an `ImageSet` says True."""
        return False

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def in_channels(self) -> int:
        """Channels per image."""
        return 1 if self.gray else 3

    @property
    def metadata(self) -> Mapping[str, Tensor]:
        """Always empty: nothing but the class is known about an image file."""
        return {}

    @property
    def num_bytes(self) -> int:
        """Memory that all images would take once decoded."""
        height, width = self.image_size
        return len(self) * self.in_channels * height * width

    def select(self, which: Tensor) -> ImageFileSet:
        """Keep the images that a boolean mask `[N]` or an index tensor selects, with their labels."""
        indices = torch.arange(len(self))[which]
        return ImageFileSet(
            [self.path(index) for index in indices.tolist()],
            self.labels[indices],
            self.classes,
            self.image_size,
            gray=self.gray,
            max_pixels=self.max_pixels,
            pad=self.pad,
        )

    def to_memory(self) -> ImageSet:
        """Decode all images into memory; it takes `num_bytes`."""
        images = torch.empty(len(self), self.in_channels, *self.image_size, dtype=torch.uint8)
        for index in range(len(self)):
            images[index] = self._read(index)
        return ImageSet(images, self.labels, self.classes, pad=self.pad)

    def _read(self, index: int) -> Tensor:
        return read_image(self.path(index), self.image_size, self.gray, self.max_pixels, pad=self.pad)
