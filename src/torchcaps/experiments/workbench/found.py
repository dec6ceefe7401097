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
    """What came out; `holds` is `None` where a claim holds in part.

    The claim itself is judged without a `question`; what else was asked has one, such as `"Is it routing?"`.
    """

    holds: bool | None
    sentence: str
    question: str = ""

    @property
    def heading(self) -> str:
        """What came out in a few words.

        >>> Verdict(True, "").heading, Verdict(None, "", "Is it routing?").heading
        ('The claim holds here', 'Is it routing? In part')
        """
        if self.question:
            return f"{self.question} {({True: 'Yes', False: 'No', None: 'In part'})[self.holds]}"
        return {
            True: "The claim holds here",
            False: "The claim does not hold here",
            None: "The claim holds in part",
        }[self.holds]


Found = Text | Table | Figure | Verdict
