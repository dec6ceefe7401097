from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any


def lazy_names(package: str, home: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Let a package import its public names when they are first asked for.

    Help and tab completion then answer at once, without waiting for PyTorch.

    Args:
        package: its `__name__`.
        home: the module inside the package that each public name comes from.

    Returns the package's `__getattr__` and `__dir__`; modules of the package are found as well.

    Example:
        >>> find, names = lazy_names("torchcaps", {"squash": "capsules"})
        >>> find("squash").__name__, names()
        ('squash', ['squash'])
    """

    def find(name: str) -> Any:
        if name not in home:
            if not name.startswith("_") and find_spec(f"{package}.{name}"):
                return importlib.import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    return find, lambda: sorted(home)
