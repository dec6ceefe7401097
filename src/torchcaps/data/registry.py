"""Data sets by name: how to load each, and what training must know about it."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchcaps._registry import Registry, suggest
from torchcaps.data.imageset import ImageSet
from torchcaps.data.subset import limit_images
from torchcaps.errors import DataError

# Importing one of these registers its data sets.
MODULES = (
    "datasets.affine_mnist",
    "datasets.cifar10",
    "datasets.coil",
    "datasets.digits",
    "datasets.folder",
    "datasets.mnist",
    "datasets.norb",
    "datasets.pairs",
    "worlds.boats",
    "worlds.faces",
    "worlds.shapes",
    "worlds.solids",
    "worlds.toys",
)


@dataclass(frozen=True)
class DatasetInfo:
    """A registered data set.

    Attributes:
        loader: `loader(split, *, data_dir=None, **options) -> ImageSet`.
        recipe: a good default for the `data` table of a recipe, such as `{"preprocess": {"translate": 2}}`.
        sources: data sets that this one can be made from, chosen by its option `source`.
        random: whether the option `seed` gives other images, so that every epoch can have new ones.
        drawable: whether a decoder can learn to reconstruct its images; not if an image holds several objects
            and the metadata does not have each one alone.
        eval_split: gets the options and returns the split to evaluate on; by default `"test"`.
        image_shape: gets the options and returns channels, height and width of an image, where they are known
            before the files are read; a recipe is checked with it before anything is fetched.
    """

    loader: Callable[..., ImageSet]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    random: bool = False
    drawable: bool = True
    eval_split: Callable[[Mapping[str, Any]], str] = lambda options: "test"
    image_shape: Callable[[Mapping[str, Any]], tuple[int, int, int]] | None = None


DATASETS: Registry[DatasetInfo] = Registry("data set")


def register_dataset(name: str, **facts: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that makes a loader known to `load`, to recipes and to the command line.

    Args:
        name: of the data set; each name can be registered once.
        facts: the other attributes of `DatasetInfo`.

    Example:
        >>> import torch
        >>> @register_dataset("stripes", recipe={"preprocess": {"translate": 1}})
        ... def stripes(split="train", *, data_dir=None, count=4):
        ...     images = torch.zeros(count, 1, 8, 8, dtype=torch.uint8)
        ...     return ImageSet(images, torch.zeros(count, dtype=torch.int64), ("stripes",))
        >>> len(load("stripes", "test", count=3))
        3
    """

    if not isinstance(name, str):
        raise ValueError(f'a data set is registered with its name: @register_dataset("name"), got {name!r}')

    def register(loader: Callable[..., Any]) -> Callable[..., Any]:
        DATASETS.register(name)(DatasetInfo(loader, **facts))
        return loader

    return register


def dataset_info(name: str) -> DatasetInfo:
    """The entry of a data set; that of `folder:PATH` is `folder`."""
    _register_all()
    return DATASETS[name.partition(":")[0]]


def list_datasets() -> list[str]:
    """List the names that `load` accepts, besides `folder:PATH`.

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
    limit: int | None = None,
    limit_per_class: int | None = None,
    **options: Any,
) -> ImageSet:
    """Load a data set: images as a uint8 tensor in memory, with labels and metadata.

    Args:
        name: one of `list_datasets()`, or `folder:PATH` for your own images.
        split: `"train"` or `"test"`; some sets have more.
        data_dir: where to look for the files first; then in `$TORCHCAPS_DATA`, in the cache, on the web.
        limit: keep at most so many images, balanced over the classes; see `limit_images`.
        limit_per_class: keep so many images of each class instead.
        options: the data set's own options, such as `size`; see its docstring.

    Returns:
        An `ImageSet`. A large `folder:PATH` comes as an `ImageFileSet`, which leaves the images in their
        files and has the same attributes except `images`; see `folder`.

    Example:
        >>> digits = load("digits", "test", size=16)
        >>> digits.images.shape, digits.labels.shape, digits.num_classes
        (torch.Size([355, 1, 16, 16]), torch.Size([355]), 10)
        >>> len(load("digits", limit_per_class=5))
        50
        >>> load("digits", sise=16)
        Traceback (most recent call last):
        ValueError: unknown option 'sise' for data set 'digits': did you mean 'size'? Known: limit, \
limit_per_class, size.
    """
    _register_all()
    kind, colon, path = name.partition(":")
    if colon:
        if kind != "folder" or not path:
            raise ValueError(f"unknown data set {name!r}: only folder:PATH may have a path")
        if data_dir is not None:
            raise ValueError(f"data_dir cannot be used together with {name!r}: the path is in the name")
        name, data_dir = kind, path
    elif data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise DataError.in_file(data_dir, "there is no such folder (data_dir)")
    loader = DATASETS[name].loader
    parameters = inspect.signature(loader).parameters.values()
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        known = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
        known = [each for each in known if each != "data_dir"] + ["limit", "limit_per_class"]
        for option in options:
            if option not in known:
                raise ValueError(f"unknown option {option!r} for data set {name!r}: {suggest(option, known)}")
    return limit_images(loader(split, data_dir=data_dir, **options), limit, limit_per_class)


def _register_all() -> None:
    for module in MODULES:
        importlib.import_module(f"torchcaps.data.{module}")
