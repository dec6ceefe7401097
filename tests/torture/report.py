"""The table of a torture run, and its place in docs/reliability.md."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchcaps import kernels
from torchcaps._machine import processor_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- torture: begin -->\n", "<!-- torture: end -->\n"
COLUMNS = (
    "part", "cases", "seconds", "exceptions", "non-finite", "beyond conditioning", "failures", "seed",
    "commit",
)  # fmt: skip


@dataclass
class Part:
    """What one part of a run found.

    Attributes:
        name: of the part.
        seed: of the part.
        cases: how many there were, in words.
        seconds: how long it took.
        counts: what was found, by kind.
        commit: of the checkout at the start.
        kept: the cases in which something was wrong.
    """

    name: str
    seed: int
    cases: str
    seconds: float
    counts: Counter[str]
    commit: str
    kept: list[dict[str, Any]] = field(default_factory=list)

    def count(self, *words: str) -> int:
        """The sum of all counts whose name has all these words."""
        return sum(n for name, n in self.counts.items() if set(words) <= set(name.split()))

    @property
    def failures(self) -> int:
        """Everything that must not happen."""
        return (
            self.count("exceptions")
            + self.count("crashes")
            + self.count("failures")
            + self.count("nonfinite", "float64")
            + self.count("nonfinite", "inside")
            + self.count("beyond")
        )

    def row(self) -> list[str]:
        """Its line of the table."""
        numeric = self.name == "numeric"
        promised = self.count("nonfinite", "float64") + self.count("nonfinite", "inside")
        return [
            self.name,
            self.cases,
            f"{self.seconds:.0f}",
            str(self.count("exceptions") + self.count("crashes")),
            f"{promised}, and {self.count('nonfinite', 'outside'):,} out of range" if numeric else "–",
            f"{self.count('beyond')} of {self.count('compared'):,}" if numeric else "–",
            str(self.failures),
            str(self.seed),
            self.commit,
        ]


def current_commit() -> str:
    """The commit of this checkout, marked if files have changed since."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True, text=True
    )
    return found.stdout.strip() or "unknown"


def machine() -> str:
    """The machine in one line."""
    import torch

    return (
        f"{processor_name()}, {platform.system()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}, kernels {kernels.status().instruction_set or 'not built'}"
    )


def markdown(rows: list[list[str]]) -> str:
    """The table in Markdown."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def record(parts: list[Part], page: Path = PAGE) -> None:
    """Put the rows of these parts into the page; rows of other parts stay."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    rows = {}
    for line in old.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("part", "---"):
            rows[cells[0]] = cells
    rows |= {part.name: part.row() for part in parts}
    table = f"{markdown(list(rows.values()))}\n{machine()}.\n"
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
