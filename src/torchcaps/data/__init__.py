"""Data sets, where they are found, transformations and batches."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchcaps.data.batches import Batch, Batches
    from torchcaps.data.errors import DataError
    from torchcaps.data.imageset import DATASETS, ImageSet
    from torchcaps.data.loading import list_datasets, load
    from torchcaps.data.locations import cache_dir
    from torchcaps.data.preprocess import Preprocess
    from torchcaps.data.sheet import contact_sheet

__all__ = [
    "DATASETS",
    "Batch",
    "Batches",
    "DataError",
    "ImageSet",
    "Preprocess",
    "cache_dir",
    "contact_sheet",
    "list_datasets",
    "load",
]

_HOME = {
    "Batch": "batches",
    "Batches": "batches",
    "DATASETS": "imageset",
    "DataError": "errors",
    "ImageSet": "imageset",
    "Preprocess": "preprocess",
    "cache_dir": "locations",
    "contact_sheet": "sheet",
    "list_datasets": "loading",
    "load": "loading",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that importing this package costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
