"""What an experiment leaves for its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Table(NamedTuple):
    """Numbers in rows; `marked` rows are set apart, such as the published ones."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    caption: str
    marked: list[int]


class Figure(NamedTuple):
    """A picture on the disk (SVG, or GIF if it moves)."""

    name: str
    path: Path
    caption: str


class Verdict(NamedTuple):
    """What came out; `holds` is `None` where a claim holds in part."""

    holds: bool | None
    sentence: str


Found = Text | Table | Figure | Verdict
