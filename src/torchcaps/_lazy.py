from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

Lazy = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def lazy_imports(package: str, file: str) -> Lazy:
    """Let a package import its public names when they are first used.

    `--help` and tab completion then answer without waiting for PyTorch. The names are written once, in the
    package's `__init__.pyi`, as `from package.module import name as name`; type checkers read them there.

    Args:
        package: the package's `__name__`.
        file: the package's `__file__`.

    Returns:
        The package's `__getattr__`, `__dir__` and `__all__`. Modules of the package are found and listed as
        well.

    Example:
        >>> import torchcaps
        >>> find, _, names = lazy_imports("torchcaps", torchcaps.__file__)
        >>> find("squash").__name__, "squash" in names
        ('squash', True)
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    home = {
        alias.asname or alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def find(name: str) -> Any:
        if name in home:
            return getattr(importlib.import_module(home[name]), name)
        if not name.startswith("_") and find_spec(f"{package}.{name}"):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    names = sorted(home)
    return find, lambda: sorted({*names, *public_modules(Path(file).parent)}), names


def public_modules(folder: Path) -> set[str]:
    """Names of the modules and packages in a package's folder, without private ones.

    >>> import torchcaps
    >>> {"layers", "losses"} <= public_modules(Path(torchcaps.__file__).parent)
    True
    """
    return {module.name for module in iter_modules([str(folder)]) if not module.name.startswith("_")}
