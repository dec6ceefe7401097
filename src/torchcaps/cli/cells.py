"""Progress of a comparison: one bar for all cells on a terminal, one line per cell elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from torch import Tensor

from torchcaps.cli.progress import duration
from torchcaps.experiments.compare.cells import Cell
from torchcaps.experiments.compare.estimate import Estimate
from torchcaps.experiments.compare.run import Progress
from torchcaps.training.callbacks import Callback, Plan
from torchcaps.training.checkpoint import Position

REFRESH_SECONDS = 0.25


class CellProgress(Progress):
    """Shows which cell is computed, how far its training is, and how much time is left.

    Args:
        quiet: show nothing.
        limit: seconds that one training may take.
    """

    def __init__(self, *, quiet: bool, limit: float) -> None:
        self.console = Console(highlight=False, soft_wrap=True, quiet=quiet)
        self.limit = limit
        self.live = not quiet and sys.stdout.isatty()
        self.bar = Bar(
            TextColumn("cell"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            transient=True,
            auto_refresh=False,
        )
        self.finished = 0
        self.estimated = 0.0
        self.started = time.monotonic()

    def __enter__(self) -> CellProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def on_estimate(self, estimate: Estimate) -> None:
        """Say how long it will take, before the first cell."""
        self.total, self.left = estimate.total, estimate.left
        self.finished = estimate.total - estimate.left
        self.estimated = estimate.seconds
        kept = f", {self.finished} of them finished already" if self.finished else ""
        self.console.print(f"{estimate.total} cells{kept}; about {duration(estimate.seconds)} for the rest")
        if estimate.longest is not None:
            text = f"longest: {estimate.longest.title()}, about {duration(estimate.longest_seconds)}"
            self.console.print(f"{text}; the limit is {duration(self.limit)}")
            if estimate.longest_seconds > self.limit:
                self.console.print("some trainings may not finish: raise --minutes, or choose fewer networks")
        self.task = self.bar.add_task("", total=estimate.total, completed=self.finished, text="")
        self.started = time.monotonic()
        if self.live:
            self.bar.start()

    def on_cell_begin(self, cell: Cell) -> None:
        """Show the cell."""
        self.cell = cell
        self.show("")

    def training_callback(self) -> Callback:
        """Shows how far the training of the cell is."""
        return StepProgress(self)

    def on_cell_end(self, cell: Cell, result: dict[str, Any]) -> None:
        """Count the cell; print a line, and the message if it failed."""
        self.finished += 1
        self.bar.update(self.task, completed=self.finished)
        if result["status"] != "ended":
            self.console.print(f"failed: {cell.title()}: {result['message']}")
        elif not self.live:
            place = f"{self.finished}/{self.total}"
            self.console.print(f"{place} {cell.title()}, {duration(result['seconds'])}{self.time_left()}")

    def show(self, step: str) -> None:
        """Move the bar."""
        if self.live:
            self.bar.update(self.task, text=f"{self.cell.title()}{step}{self.time_left()}", refresh=True)

    def time_left(self) -> str:
        """The time that is left: the estimate at first, then by the pace so far."""
        done = self.finished - (self.total - self.left)
        rest = self.left - done
        if not rest:
            return ""
        spent = time.monotonic() - self.started
        seconds = spent / done * rest if done >= 3 else max(0.0, self.estimated - spent)
        return f", about {duration(seconds)} left"


class StepProgress(Callback):
    """Tells a `CellProgress` how far a training is."""

    def __init__(self, progress: CellProgress) -> None:
        self.progress = progress
        self.shown_at = 0.0

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """Remember the number of steps."""
        self.steps = plan.epochs * plan.batches

    def on_step_end(self, position: Position, totals: Tensor) -> None:
        """Show the step, a few times a second."""
        now = time.monotonic()
        if now - self.shown_at >= REFRESH_SECONDS:
            self.shown_at = now
            self.progress.show(f", step {position.step}/{self.steps}")
