from __future__ import annotations

import gzip
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_on_success(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path that takes the name `path` when the block ends well, and vanishes when not.

    Readers see the old file or the whole new one, never a part.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replaced_on_success(f"{folder}/note.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     sorted(os.listdir(folder)), Path(folder, "note.txt").read_text()
    (['note.txt'], 'whole')
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write `chunks` to `path`, gzipped where the name ends in `.gz`, whole or not at all."""
    with replaced_on_success(path) as temporary, open(temporary, "wb") as plain:
        if not str(path).endswith(".gz"):
            for chunk in chunks:
                plain.write(chunk)
            return
        # No file name and no time inside, so that the same data gives the same bytes.
        with gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed:
            for chunk in chunks:
                packed.write(chunk)
