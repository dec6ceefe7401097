"""Speed on this machine: routings by geometry and form, whole networks, and how the cost scales."""

from torchcaps._lazy import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)
