from __future__ import annotations

import importlib
from types import ModuleType

from torchcaps.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module that comes with an extra of torchcaps.

    Args:
        module: the module's full name, such as `matplotlib.figure`.
        extra: the extra of `pyproject.toml` that installs it.
        purpose: what needs it; the subject of the error message.

    Returns:
        The imported module.

    Raises:
        MissingExtraError: the module is not installed; the message is the command that installs it.

    Example:
        >>> require("json", extra="train", purpose="training").__name__
        'json'
        >>> require("not_installed", extra="train", purpose="the command line")
        Traceback (most recent call last):
        torchcaps.errors.MissingExtraError: the command line needs the extra 'train': \
pip install "torchcaps[train]"
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise  # the package is installed, but something that it needs is missing
        raise MissingExtraError(
            f'{purpose} needs the extra {extra!r}: pip install "torchcaps[{extra}]"'
        ) from error
