from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "TORCHCAPS_CACHE"


def cache_dir() -> Path:
    """The folder for fetched and generated data, and for what is known about the GPUs of this machine.

    It is `$TORCHCAPS_CACHE` if set, otherwise `torchcaps` in `$XDG_CACHE_HOME` or in `~/.cache`.
    """
    folder = os.environ.get(CACHE_VARIABLE)
    if folder:
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "torchcaps"
