"""The items of an experiment's report: paragraphs, tables, figures and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torchcaps.experiments.framework.formatting import cell_json


class Text(NamedTuple):
    """A paragraph of the report."""

    text: str


class Table(NamedTuple):
    """A table of the report; `marked` rows are shaded, such as published numbers."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    caption: str
    marked: list[int]


class Figure(NamedTuple):
    """An image file of the report (SVG, or GIF if animated)."""

    name: str
    path: Path
    caption: str


class Verdict(NamedTuple):
    """The answer to the claim, or to a further `question` such as `"Is routing the reason?"`.

    `holds` is `None` if the claim holds in part.
    """

    holds: bool | None
    sentence: str
    question: str = ""

    @property
    def heading(self) -> str:
        """The answer in a few words.

        >>> Verdict(True, "").heading, Verdict(None, "", "Is routing the reason?").heading
        ('The claim holds here', 'Is routing the reason? In part')
        """
        if self.question:
            return f"{self.question} {({True: 'Yes', False: 'No', None: 'In part'})[self.holds]}"
        return {
            True: "The claim holds here",
            False: "The claim does not hold here",
            None: "The claim holds in part",
        }[self.holds]


ReportItem = Text | Table | Figure | Verdict


def table_json(table: Table) -> dict[str, Any]:
    """A table as JSON can hold it, without its caption."""
    rows = [[cell_json(cell) for cell in row] for row in table.rows]
    return {"title": table.title, "columns": table.columns, "rows": rows, "marked": table.marked}
