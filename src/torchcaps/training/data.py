"""The images of a run: data sets given as objects, and the splits that a recipe names."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset

from torchcaps._checks import WHOLE
from torchcaps.data import dataset_info, limit_images, load
from torchcaps.data.batches import mixed
from torchcaps.data.imageset import ImageSet
from torchcaps.data.items import split_item, to_image, to_label
from torchcaps.training.recipe import DataPart, Recipe

# How many items, spread over a data set, are loaded to check it before training starts.
CHECKED_ITEMS = 16


class LabeledImages(Dataset[tuple[Tensor, Tensor]]):
    """A map-style data set of `(image, label)`, every item converted to tensors and checked.

    Args:
        dataset: any object with `len(dataset)` and `dataset[index]`. An image is a tensor `[C, H, W]`, a PIL
            image or an array `[H, W]` or `[H, W, C]`, uint8 or float. A label is a whole number or K of them.
        classes: names of the classes; by default `dataset.classes` if there is such an attribute.
        labels: int64 `[N]` or `[N, K]`; by default `dataset.labels` or `dataset.targets` if there is such an
            attribute. Training reads the labels of the items, but these can be checked before it starts.

    Example:
        >>> import numpy as np
        >>> images = LabeledImages([(np.zeros((8, 8), dtype=np.uint8), 1)], classes=("a", "b"))
        >>> image, label = images[0]
        >>> image.shape, label
        (torch.Size([1, 8, 8]), tensor(1))
        >>> LabeledImages([("cat.png", 1)])
        Traceback (most recent call last):
        torchcaps.errors.DataError: item 0: an image must be a tensor, a PIL image or an array, got str
    """

    def __init__(
        self, dataset: Any, classes: Sequence[str] | None = None, labels: Tensor | None = None
    ) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise ValueError(
                f"{type(dataset).__name__} is not a map-style data set: training needs len(dataset) and "
                "dataset[index], to shuffle images and to resume"
            )
        self.dataset = dataset
        self.pad = bool(getattr(dataset, "pad", False))  # see `ImageSet.pad`
        classes = getattr(dataset, "classes", None) if classes is None else classes
        self.classes = None if classes is None else tuple(map(str, classes))
        if not len(dataset):
            raise ValueError("the data set is empty")
        self.labels = known_labels(dataset) if labels is None else labels
        self.image_shape: torch.Size | None = None
        self.label_shape: torch.Size | None = None
        image, label = self[0]
        self.image_shape, self.label_shape = image.shape, label.shape

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, label = split_item(self.dataset[index], index)
        image, label = to_image(image, index), to_label(label, index)
        for name, value, expected in (
            ("image", image, self.image_shape),
            ("label", label, self.label_shape),
        ):
            if expected is not None and value.shape != expected:
                raise ValueError(
                    f"item {index}: the {name} has shape {list(value.shape)}, that of item 0 has "
                    f"{list(expected)}; all must have the same"
                )
        self._check_range(label, f"item {index}: the label is {label.tolist()}")
        return image, label

    def _check_range(self, labels: Tensor, message: str) -> None:
        if self.classes is not None and not 0 <= int(labels.min()) <= int(labels.max()) < self.num_classes:
            raise ValueError(
                f"{message}, but there are {self.num_classes} classes, numbered from 0 to "
                f"{self.num_classes - 1}"
            )

    @property
    def in_channels(self) -> int:
        """Channels per image."""
        return self[0][0].shape[0]

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self[0][0].shape[1:]
        return height, width

    @property
    def num_classes(self) -> int:
        """How many classes there are; 0 if that is not known."""
        return len(self.classes or ())

    @property
    def multi_label(self) -> bool:
        """Whether an image has K labels rather than one."""
        return bool(self.label_shape)

    def select(self, indices: Tensor) -> LabeledImages:
        """The items of these indices."""
        labels = None if self.labels is None else self.labels[indices]
        selected = LabeledImages(Subset(self.dataset, indices.tolist()), self.classes, labels)
        selected.pad = self.pad
        return selected

    def check(self) -> None:
        """Check all labels that are known, and load some items; a wrong one raises `ValueError`."""
        if self.labels is not None:
            low, high = int(self.labels.min()), int(self.labels.max())
            self._check_range(self.labels, f"the labels of the data set go from {low} to {high}")
        for index in range(0, len(self), max(1, len(self) // CHECKED_ITEMS)):
            self[index]


def known_labels(dataset: Any) -> Tensor | None:
    """The labels of a data set that has them as an attribute, as those of torchvision have.

    >>> known_labels(type("Digits", (list,), {"targets": [3, 1]})([0, 0]))
    tensor([3, 1])
    """
    for name in ("labels", "targets"):
        try:
            labels = torch.as_tensor(getattr(dataset, name, None))
        except (TypeError, ValueError, RuntimeError):
            continue
        if labels.dtype in WHOLE and labels.ndim in (1, 2) and len(labels) == len(dataset):
            return labels.long()
    return None


Images = ImageSet | LabeledImages


def as_images(dataset: Any, classes: Sequence[str] | None = None) -> Images:
    """An `ImageSet` as it is, any other data set as `LabeledImages`."""
    return dataset if isinstance(dataset, (ImageSet, LabeledImages)) else LabeledImages(dataset, classes)


def has_several_labels(images: Images) -> bool:
    """Whether each image has K labels rather than one."""
    return images.multi_label if isinstance(images, LabeledImages) else images.labels.ndim == 2


def first_images(images: Images, count: int = 2) -> tuple[Tensor, Tensor]:
    """A few images `[B, C, H, W]` and their labels."""
    count = min(count, len(images))
    if isinstance(images, ImageSet):
        return images.images[:count], images.labels[:count]
    items = [images[index] for index in range(count)]
    return torch.stack([image for image, _ in items]), torch.stack([label for _, label in items])


class Splits(NamedTuple):
    """The images of a run.

    Attributes:
        train: what it trains on.
        validation: what it is tested on after every epoch; `None` if there is nothing to test on.
        validation_name: `"validation"` for held-out training images; `"test"` if these are the test images.
        test: what it is tested on at the end.
    """

    train: Images
    validation: Images | None
    validation_name: str
    test: Images | None


def load_splits(data: DataPart, seed: int) -> Splits:
    """Load the data of a recipe and hold out the validation share, the same one for the same seed.

    >>> splits = load_splits(DataPart("digits", val_fraction=0.25, limit=100), seed=0)
    >>> len(splits.train), len(splits.validation), len(splits.test), splits.validation_name
    (100, 360, 355, 'validation')
    """
    return make_splits(load_split(data, "train"), load_split(data, eval_split(data)), data, seed)


def make_splits(train: Images, test: Images | None, data: DataPart, seed: int) -> Splits:
    """Hold out the validation share of the training images, and limit the others."""
    validation, name = test, "test"
    if data.val_fraction:
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        held_out = int(len(train) * data.val_fraction)
        if not held_out:
            raise ValueError(
                f"data.val_fraction = {data.val_fraction} of {len(train)} images leaves no validation image"
            )
        validation, name = train.select(order[:held_out]), "validation"
        train = train.select(order[held_out:])
    return Splits(limit_images(train, data.limit, data.limit_per_class, seed), validation, name, test)


def load_train(data: DataPart, epoch: int, seed: int) -> Images:
    """The training images of an epoch: new ones for each if the recipe resamples them.

    >>> pairs = DataPart("multimnist", {"source": "digits"}, resample_each_epoch=True)
    >>> first, second = load_train(pairs, 0, seed=0), load_train(pairs, 1, seed=0)
    >>> len(first) == len(second), torch.equal(first.labels, second.labels)
    (True, False)
    """
    if data.resample_each_epoch and epoch:
        data = replace(data, options={**data.options, "seed": mixed(data.options.get("seed", 0), epoch)})
    return limit_images(load_split(data, "train"), data.limit, data.limit_per_class, seed)


def eval_split(data: DataPart) -> str:
    """The split that a recipe's model is tested on."""
    return dataset_info(data.name).eval_split(data.options)


def load_split(data: DataPart, split: str) -> Images:
    """One split of a recipe's data set, not limited."""
    return as_images(load(data.name, split, data_dir=data.dir, **data.options))


def load_other(recipe: Recipe, name: str) -> Images:
    """Load the test images of another data set, for the model of a recipe.

    A data set that is made from others is made from the recipe's own, in the same size.
    """
    info, options = dataset_info(name), dict[str, Any]()
    if recipe.data.name in info.sources:
        options["source"] = recipe.data.name
        if "size" in recipe.data.options and "size" in inspect.signature(info.loader).parameters:
            options["size"] = recipe.data.options["size"]
    return as_images(load(name, "test", data_dir=recipe.data.dir, **options))


def background(images: torch.Tensor) -> float:
    """Mean brightness, 0..1, along the border of images `[N, C, H, W]`.

    >>> round(background(load("digits", "test").images), 2)
    0.15
    """
    some = images[:: max(1, len(images) // 1000)]
    some = some if some.is_floating_point() else some.float() / 255
    rows = torch.cat([some[..., 0, :], some[..., -1, :]], dim=-1)
    columns = torch.cat([some[..., :, 0], some[..., :, -1]], dim=-1)
    return float(torch.cat([rows, columns], dim=-1).mean())
