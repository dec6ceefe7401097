from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from torchcaps.data import dataset_info, limit_images, load
from torchcaps.data.batches import mixed
from torchcaps.training.datasets import Images, as_images
from torchcaps.training.recipe import DataPart, Recipe


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
            raise ValueError(f"data.val_fraction = {data.val_fraction} of {len(train)} images is none")
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
