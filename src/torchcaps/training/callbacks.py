from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor

from torchcaps.training.checkpoint import Position


class Plan(NamedTuple):
    """What a run is about to do."""

    run: str
    model: str
    num_params: int
    data: str
    loss: str
    images: int
    batches: int
    batch_size: int
    epochs: int
    device: str
    processes: int


class Callback:
    """Base class for callbacks; its methods do nothing.

    They are called in the main process only.

    Example:
        >>> class PrintEpochs(Callback):
        ...     def on_epoch_end(self, record):
        ...         print(record["epoch"], record["train"]["loss"])
    """

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """Training starts, or continues from a position."""

    def on_step_end(self, position: Position, totals: Tensor) -> None:
        """A batch is done.

        Args:
            position: where the run is; do not change it.
            totals: loss, images right and images, summed over this process's part of this epoch. They are on
                the device: reading them waits for it, so do not read them at every step.
        """

    def on_record(self, numbers: dict[str, Any]) -> None:
        """A line was written to `metrics.jsonl`: every hundred steps, and at the end of each epoch."""

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """An epoch is done and tested; `record` is its line in `metrics.jsonl`."""

    def on_train_end(self, result: dict[str, Any]) -> None:
        """The run has ended or is paused; `result` is what `result.json` holds."""

    def close(self) -> None:
        """Nothing more will be called. This one is called after an error too."""


class CallbackList(Callback):
    """Calls several callbacks, one after the other.

    >>> class Name(Callback):
    ...     def close(self):
    ...         print("closed")
    >>> CallbackList([Name(), Name()]).close()
    closed
    closed
    """

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.callbacks = list(callbacks)
        for each in self.callbacks:
            if not isinstance(each, Callback):
                raise ValueError(f"callbacks must be objects of torchcaps.training.Callback, got {each!r}")

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """See `Callback`."""
        for each in self.callbacks:
            each.on_train_begin(plan, position)

    def on_step_end(self, position: Position, totals: Tensor) -> None:
        """See `Callback`."""
        for each in self.callbacks:
            each.on_step_end(position, totals)

    def on_record(self, numbers: dict[str, Any]) -> None:
        """See `Callback`."""
        for each in self.callbacks:
            each.on_record(numbers)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """See `Callback`."""
        for each in self.callbacks:
            each.on_epoch_end(record)

    def on_train_end(self, result: dict[str, Any]) -> None:
        """See `Callback`."""
        for each in self.callbacks:
            each.on_train_end(result)

    def close(self) -> None:
        """See `Callback`."""
        for each in self.callbacks:
            each.close()


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Seconds in `90m`, `1h30m`, `45s` or plain `300`.

    >>> parse_duration("90m"), parse_duration("1h30m"), parse_duration("300")
    (5400.0, 5400.0, 300.0)
    >>> parse_duration("soon")
    Traceback (most recent call last):
    ValueError: a duration is written like 90m, 1h30m or 45s; got 'soon'
    """
    number = r"\d+(?:\.\d+)?"
    if re.fullmatch(number, text):
        return float(text)
    if not re.fullmatch(rf"(?:{number}[smhd])+", text):
        raise ValueError(f"a duration is written like 90m, 1h30m or 45s; got {text!r}")
    return sum(float(amount) * UNITS[unit] for amount, unit in re.findall(rf"({number})([smhd])", text))


class Stopper:
    """Tells when to stop: at the end of a time budget, at Ctrl-C, a termination signal or a closed terminal.

    A signal only sets a flag, so that the current step is finished and saved; a second one interrupts.

    Args:
        budget: seconds, counted from now.

    Example:
        >>> with Stopper(budget=0.0) as stopper:
        ...     stopper.reason()
        'budget'
    """

    def __init__(self, budget: float | None = None) -> None:
        self.deadline = None if budget is None else time.monotonic() + budget
        self.signaled = False
        self.previous_handlers: dict[int, Any] = {}
        self.terminals: list[int] = []

    def reason(self, needed: float = 0.0) -> str:
        """Why to stop now, or an empty string; `needed` are the seconds that saving and tests will take."""
        if self.signaled:
            return "interrupted"
        if self.deadline is not None and time.monotonic() + needed >= self.deadline:
            return "budget"
        return ""

    def __enter__(self) -> Stopper:
        # Handlers can be set in the main thread only; elsewhere (a notebook's worker) signals are not seen.
        if threading.current_thread() is threading.main_thread():
            self.terminals = [number for number in (1, 2) if os.isatty(number)]
            signals = [signal.SIGINT, signal.SIGTERM]
            # `nohup` ignores the hangup, so that a run continues when its terminal is closed.
            if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                signals.append(signal.SIGHUP)
            self.previous_handlers = {number: signal.signal(number, self._handle) for number in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # A callback that prints to a closed terminal would end the run before it is saved.
        for terminal in self.terminals:
            if not os.isatty(terminal):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, terminal)
                os.close(nowhere)
        if self.signaled:
            raise KeyboardInterrupt
        self.signaled = True
