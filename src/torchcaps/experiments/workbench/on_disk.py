"""Files of an experiment: written whole or not at all, and read with a clear word if they are damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchcaps._files import replaced_on_success


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    with replaced_on_success(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_table(path: Path, table: Mapping[str, Any]) -> None:
    """Write a table of plain values as JSON."""
    write_text(path, json.dumps(table, indent=2) + "\n")


def read_table(path: Path, *needed: str) -> dict[str, Any]:
    """Read a table that has the keys `needed`; any other file is an error that names it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_table(Path(folder, "some.json"), {"seed": 3})
    ...     read_table(Path(folder, "some.json"), "seed")
    {'seed': 3}
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        table = None
    if not isinstance(table, dict) or not table.keys() >= set(needed):
        raise ValueError(
            f"{path} is empty or damaged: give another --out, or remove the folder {path.parent}"
        )
    return table


def read_kept(path: Path, basis: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was kept in a file, if it was computed from this basis; a damaged file is computed again."""
    try:
        table = read_table(path, "basis", "value")
    except (OSError, ValueError):
        return None
    return table["value"] if table["basis"] == plain(basis) else None


def plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table as it comes back from a file.

    >>> plain({"sizes": (3, 4)})
    {'sizes': [3, 4]}
    """
    return json.loads(json.dumps(table))
