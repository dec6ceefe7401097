"""Progress of a training run: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from torch import Tensor

from torchcaps._words import counted
from torchcaps.cli.imports import recorded_imports
from torchcaps.cli.tables import metric_lines, percent
from torchcaps.training.callbacks import Callback, Plan
from torchcaps.training.checkpoint import Position

LIVE_SECONDS, LINE_SECONDS = 0.25, 15.0


def make_progress(*, alone: bool = True) -> LineProgress:
    """The callback for this output; `alone` is as in `LineProgress`."""
    return LiveProgress(alone=alone) if sys.stdout.isatty() else LineProgress(alone=alone)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, in the shortest form.

    >>> duration(7), duration(125), duration(7325)
    ('7 s', '2:05', '2:02:05')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


class LineProgress(Callback):
    """Prints a line at intervals, one per epoch, and the result.

    Args:
        alone: whether to print the command that resumes a stopped run. Not for a run that is a part of an
            experiment, which is resumed as a whole.
    """

    interval = LINE_SECONDS

    def __init__(self, *, alone: bool = True) -> None:
        self.alone = alone
        self.console = Console(highlight=False, soft_wrap=True)

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """Print what is trained on what."""
        self.plan = plan
        self.shown_at = time.monotonic()
        self.seconds, self.images = position.seconds, position.images
        device = plan.device if plan.processes == 1 else f"{plan.processes} × {plan.device}"
        self.console.print(
            f"{plan.model} ({plan.num_params:,} parameters) on {plan.data} ({plan.images:,} images), "
            f"{plan.loss} loss, {counted(plan.epochs, 'epoch')} of "
            f"{counted(plan.batches, 'batch', 'batches')} of {plan.batch_size}, "
            f"{device} → {plan.run}"
        )
        if position.step:
            self.console.print(f"resuming after step {position.step}")

    def on_step_end(self, position: Position, totals: Tensor) -> None:
        """Show the state if the interval has passed; reading `totals` waits for the device."""
        now = time.monotonic()
        if now - self.shown_at >= self.interval:
            self.shown_at = now
            self.show(position, *totals.tolist())

    def show(self, position: Position, loss: float, correct: float, images: float) -> None:
        """Print a line, from sums over the epoch so far."""
        text = self.text(position, loss / images, correct / images)
        epoch = f"epoch {position.epoch + 1}/{self.plan.epochs}"
        self.console.print(f"{epoch} batch {position.batch}/{self.plan.batches}  {text}")

    def text(self, position: Position, loss: float, accuracy: float) -> str:
        """Loss, accuracy, speed of this session, and time left."""
        spent = max(1e-9, position.seconds - self.seconds)
        rate = (position.images - self.images) / spent
        left = (self.plan.epochs * self.plan.images - position.images) / max(rate, 1e-9)
        return f"loss {loss:.4f}  accuracy {percent(accuracy)}  {rate:,.0f} images/s  {duration(left)} left"

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """Print the metrics of an epoch."""
        name = "validation" if "validation" in record else "test"
        self.console.print(
            f"epoch {record['epoch']}/{self.plan.epochs}  loss {record['train']['loss']:.4f}  "
            f"accuracy {percent(record['train']['accuracy'])}  {name} {percent(record[name]['accuracy'])}  "
            f"{record['images_per_second']:,.0f} images/s  {duration(record['seconds'])}"
        )

    def on_train_end(self, result: dict[str, Any]) -> None:
        """Print the result, or how to resume."""
        if result["status"] != "ended":
            reason = "the time budget is used up" if result["status"] == "budget" else "interrupted"
            imports = "".join(f" --import {name}" for name in recorded_imports(Path(result["run"])))
            command = f"torchcaps{imports} train --resume --out {result['run']}"
            hint = f" To continue: {command}" if self.alone else ""
            self.console.print(f"{reason} after step {result['step']}, saved.{hint}")
            return
        for line in metric_lines(result["metrics"]):
            self.console.print(line)
        self.console.print(
            f"{result['run']}: {duration(result['seconds'])} of training, model {result['model']}"
        )


class JsonLines(Callback):
    """Prints one JSON object per line, each with an `event`: `begin`, `record` or `end`."""

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """Print what is trained on what, and after which step it continues."""
        self.print("begin", {**plan._asdict(), "step": position.step})

    def on_record(self, numbers: dict[str, Any]) -> None:
        """Print a line of `metrics.jsonl`."""
        self.print("record", numbers)

    def on_train_end(self, result: dict[str, Any]) -> None:
        """Print what `result.json` holds."""
        self.print("end", result)

    def print(self, event: str, values: dict[str, Any]) -> None:
        """Print one line at once, for programs that read along."""
        print(json.dumps({"event": event, **values}), flush=True)


class LiveProgress(LineProgress):
    """Shows a bar for the current epoch."""

    interval = LIVE_SECONDS
    bar: Progress | None = None

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """Print what is trained on what, and draw the bar."""
        super().on_train_begin(plan, position)
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            transient=True,
            auto_refresh=False,
        )
        epoch = min(position.epoch + 1, plan.epochs)
        self.task = self.bar.add_task("", total=plan.batches, epoch=f"{epoch}/{plan.epochs}", text="")
        self.bar.start()

    def show(self, position: Position, loss: float, correct: float, images: float) -> None:
        """Move the bar."""
        epoch = f"{position.epoch + 1}/{self.plan.epochs}"
        text = self.text(position, loss / images, correct / images)
        assert self.bar is not None
        self.bar.update(self.task, completed=position.batch, epoch=epoch, text=text, refresh=True)

    def on_train_end(self, result: dict[str, Any]) -> None:
        """Remove the bar and print the result."""
        self.close()
        super().on_train_end(result)

    def close(self) -> None:
        """Restore the terminal."""
        if self.bar is not None:
            self.bar.stop()
