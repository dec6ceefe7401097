from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DATA_VARIABLE = "TORCHCAPS_DATA"
CACHE_VARIABLE = "TORCHCAPS_CACHE"


def cache_dir() -> Path:
    """Say where fetched and generated data is kept.

    `$TORCHCAPS_CACHE`, or else `torchcaps` in `$XDG_CACHE_HOME`, or else in `~/.cache`.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "torchcaps"


def user_folders(folder: str, data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """List where the user may have put the files of a data set, first choice first.

    The files lie in the sub-folder `folder` of the directory given or of `$TORCHCAPS_DATA`; a directory
    given may also hold them itself.

    >>> [place.as_posix() for place in user_folders("mnist", "/data")][:2]
    ['/data/mnist', '/data']
    """
    places: list[Path] = []
    if data_dir is not None:
        given = Path(data_dir).expanduser()
        places += [given / folder, given]
    shared = os.environ.get(DATA_VARIABLE)
    if shared:
        places.append(Path(shared).expanduser() / folder)
    return places


try:
    import fcntl
except ImportError:  # Windows: two processes may then fetch twice, but each file still arrives whole.
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for the same folder waiting until the block ends.

    The lock goes with the process that holds it, so a killed one leaves nothing behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as handle:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
