"""Claims of the papers as experiments: one module per claim, with numbers, figures and a report."""

from torchcaps._lazy import lazy_imports

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)
