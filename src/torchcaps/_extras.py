from __future__ import annotations

import importlib
from typing import Any

# Where the name to import is not the name to install.
PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module of an optional dependency.

    The core installs with torch, numpy and safetensors only; everything else belongs to an extra and is
    imported where it is used.

    Args:
        module: what to import, such as `"PIL.Image"`.
        extra: the extra of torchcaps that installs it.
        purpose: what it is needed for; the error message starts with it.

    Returns:
        The module.

    Raises:
        ImportError: the package is not installed; the message has the command that installs it.

    Example:
        >>> require("math", extra="train", purpose="this example").floor(2.5)
        2
        >>> require("no_such_package", extra="train", purpose="training")
        Traceback (most recent call last):
        ImportError: training needs no_such_package: pip install "torchcaps[train]"
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise  # the package is installed, but something that it needs is missing
        name = PACKAGES.get(package, package)
        raise ImportError(f'{purpose} needs {name}: pip install "torchcaps[{extra}]"') from error
