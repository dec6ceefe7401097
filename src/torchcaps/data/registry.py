from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from typing import Any

from torchcaps._registry import Registry, suggest
from torchcaps.data.imageset import ImageSet

DATASETS: Registry[Callable[..., ImageSet]] = Registry("data set")

# Importing one of these registers its data sets.
MODULES = (
    "datasets.affine_mnist",
    "datasets.cifar10",
    "datasets.digits",
    "datasets.folder",
    "datasets.mnist",
    "datasets.norb",
    "datasets.pairs",
    "datasets.smallnorb",
    "worlds.boats",
    "worlds.toys",
)


def list_datasets() -> list[str]:
    """List the names that `load` knows, besides `folder:PATH`.

    >>> "mnist" in list_datasets()
    True
    """
    _register_all()
    return DATASETS.names()


def load(
    name: str,
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    **options: Any,
) -> ImageSet:
    """Load a data set: images as a uint8 tensor in memory, with labels and metadata.

    Args:
        name: one of `list_datasets()`, or `folder:PATH` for your own images.
        split: `train` or `test`; some sets have more.
        data_dir: where to look for the files first; then in `$TORCHCAPS_DATA`, in the cache, on the web.
        options: what the data set itself offers, such as `size`; see its docstring.

    >>> digits = load("digits", "test", size=16)
    >>> digits.images.shape, digits.labels.shape, digits.num_classes
    (torch.Size([355, 1, 16, 16]), torch.Size([355]), 10)
    >>> load("digits", sise=16)
    Traceback (most recent call last):
    ValueError: unknown option 'sise' for data set 'digits': did you mean 'size'? Known: size.

    """
    _register_all()
    kind, colon, path = name.partition(":")
    if colon:
        if kind != "folder" or not path:
            raise ValueError(f"unknown data set {name!r}: only folder:PATH may have a path")
        if data_dir is not None:
            raise ValueError(f"data_dir cannot be given together with {name!r}")
        name, data_dir = kind, path
    loader = DATASETS[name]
    parameters = inspect.signature(loader).parameters.values()
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        known = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
        known = [each for each in known if each != "data_dir"]
        for option in options:
            if option not in known:
                raise ValueError(f"unknown option {option!r} for data set {name!r}: {suggest(option, known)}")
    return loader(split, data_dir=data_dir, **options)


def _register_all() -> None:
    for module in MODULES:
        importlib.import_module(f"torchcaps.data.{module}")
