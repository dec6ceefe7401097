"""Data sets, their files, transformations and batches."""

from torchcaps._lazy import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)
