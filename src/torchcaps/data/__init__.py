"""Data sets, where they are found, transformations and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchcaps.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOME)
