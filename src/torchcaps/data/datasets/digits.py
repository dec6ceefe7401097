from __future__ import annotations

import os

import torch

from torchcaps._checks import check_choice, check_count
from torchcaps._extras import require
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.data.transforms import resize

TEST_EVERY = 5


@register_dataset("digits", recipe={"options": {"size": 28}, "preprocess": {"translate": 1}})
def digits(
    split: str = "train", *, data_dir: str | os.PathLike[str] | None = None, size: int = 8
) -> ImageSet:
    """Load scikit-learn's 1,797 handwritten digits, which need no download: 1,442 train and 355 test images.

    Every fifth digit of each class is a test image.

    Args:
        split: `"train"` or `"test"`.
        data_dir: not used.
        size: images are `[N, 1, size, size]`, scaled bilinearly from 8×8.

    Example:
        >>> digits("test", size=16).images.shape
        torch.Size([355, 1, 16, 16])
    """
    check_choice("split", split, ("train", "test"))
    check_count("size", size)
    bunch = require("sklearn.datasets", extra="train", purpose="the digits data set").load_digits()
    images = torch.from_numpy(bunch.images).mul(255 / 16).round().to(torch.uint8).unsqueeze(1)
    labels = torch.from_numpy(bunch.target).long()
    number_in_class = torch.zeros_like(labels)
    for label in range(10):
        same = labels == label
        number_in_class[same] = torch.arange(int(same.sum()))
    is_test = number_in_class % TEST_EVERY == TEST_EVERY - 1
    in_split = is_test if split == "test" else ~is_test
    return ImageSet(resize(images[in_split], size), labels[in_split], tuple("0123456789"))
