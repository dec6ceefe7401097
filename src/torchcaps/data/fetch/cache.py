from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchcaps._cache import CACHE_VARIABLE as CACHE_VARIABLE
from torchcaps._cache import cache_dir as cache_dir

DATA_VARIABLE = "TORCHCAPS_DATA"


def user_folders(folder: str, data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """List the folders where the user may have put the files of a data set, in the order of search.

    They are the sub-folder `folder` of `data_dir`, `data_dir` itself, and the sub-folder `folder` of
    `$TORCHCAPS_DATA`.

    >>> [place.as_posix() for place in user_folders("mnist", "/data")][:2]
    ['/data/mnist', '/data']
    """
    places: list[Path] = []
    if data_dir is not None:
        root = Path(data_dir).expanduser()
        places += [root / folder, root]
    shared = os.environ.get(DATA_VARIABLE)
    if shared:
        places.append(Path(shared).expanduser() / folder)
    return places


try:
    import fcntl
except ImportError:  # Windows: two processes may both fetch a file, but each file is still complete
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make other processes that lock the same folder wait until the block ends.

    The operating system releases the lock if the process is killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as handle:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
