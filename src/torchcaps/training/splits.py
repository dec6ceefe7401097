from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch

from torchcaps.data import dataset_info, load
from torchcaps.data.batches import mixed
from torchcaps.data.imageset import ImageSet
from torchcaps.training.recipe import DataPart, Recipe


class Splits(NamedTuple):
    """What a run trains on, is watched on (`watch_name` says which that is), and is tested on."""

    train: ImageSet
    watch: ImageSet
    watch_name: str
    test: ImageSet


def load_splits(data: DataPart, seed: int) -> Splits:
    """Load the data of a recipe, holding out the validation share, the same for the same seed.

    >>> splits = load_splits(DataPart("digits", val_fraction=0.25), seed=0)
    >>> len(splits.train), len(splits.watch), len(splits.test), splits.watch_name
    (1082, 360, 355, 'validation')
    """
    train = load_split(data, "train")
    test = load_split(data, eval_split(data))
    if not data.val_fraction:
        return Splits(train, test, "test", test)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
    held_out = int(len(train) * data.val_fraction)
    if not held_out:
        raise ValueError(f"data.val_fraction = {data.val_fraction} of {len(train)} images is none")
    return Splits(train.select(order[held_out:]), train.select(order[:held_out]), "validation", test)


def load_train(data: DataPart, epoch: int) -> ImageSet:
    """The training images of an epoch: new ones for each if the recipe resamples them.

    >>> pairs = DataPart("multimnist", {"source": "digits"}, resample_each_epoch=True)
    >>> first, second = load_train(pairs, 0), load_train(pairs, 1)
    >>> len(first) == len(second), torch.equal(first.labels, second.labels)
    (True, False)
    """
    if not (data.resample_each_epoch and epoch):
        return load_split(data, "train")
    seed = mixed(data.options.get("seed", 0), epoch)
    return load_split(replace(data, options={**data.options, "seed": seed}), "train")


def eval_split(data: DataPart) -> str:
    """The split that a recipe's model is tested on."""
    return dataset_info(data.name).eval_split(data.options)


def load_split(data: DataPart, split: str) -> ImageSet:
    """One split of a recipe's data set."""
    return load(data.name, split, data_dir=data.dir, **data.options)


def load_other(recipe: Recipe, name: str) -> ImageSet:
    """Another data set to test the same model on, made from the same images where it is made from others."""
    options: dict[str, Any] = {}
    if recipe.data.name in dataset_info(name).sources:
        options["source"] = recipe.data.name
        if name == "two_digits" and "size" in recipe.data.options:
            options["size"] = recipe.data.options["size"]
    return load(name, "test", data_dir=recipe.data.dir, **options)


def background(images: ImageSet) -> float:
    """Mean brightness, 0..1, along the border of the images: what paper or ground looks like there.

    >>> round(background(load("digits", "test")), 2)
    0.15
    """
    some = images.images[:: max(1, len(images) // 1000)].float() / 255
    rows = torch.cat([some[..., 0, :], some[..., -1, :]], dim=-1)
    columns = torch.cat([some[..., :, 0], some[..., :, -1]], dim=-1)
    return float(torch.cat([rows, columns], dim=-1).mean())
