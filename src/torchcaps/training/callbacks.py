from __future__ import annotations

import re
import signal
import threading
import time
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
    images: int
    batches: int
    batch_size: int
    epochs: int
    device: str
    processes: int


class Callback:
    """Is told how training goes, and here does nothing; the command line has one that talks.

    All of it is called in the main process only.
    """

    def begin(self, plan: Plan, position: Position) -> None:
        """Training starts, or goes on from a position."""

    def step(self, position: Position, tally: Tensor) -> None:
        """A batch is done.

        `tally` is loss, images right and images of this process in this epoch, on the device: reading it
        waits for the device, so do it seldom.
        """

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch is done and tested."""

    def end(self, result: dict[str, Any]) -> None:
        """The run is over, or paused."""

    def close(self) -> None:
        """Nothing more will come, be it that the run failed."""


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
    """Knows when to stop: the budget is used up, or someone asked (Ctrl-C, a termination signal).

    A signal only sets a flag, so that the step under way is finished and saved; a second one interrupts.

    Args:
        budget: seconds, counted from now.

    Example:
        >>> with Stopper(budget=0.0) as stopper:
        ...     stopper.reason()
        'budget'
    """

    def __init__(self, budget: float | None = None) -> None:
        self.deadline = None if budget is None else time.monotonic() + budget
        self.asked = False
        self.before: dict[int, Any] = {}

    def reason(self, needed: float = 0.0) -> str:
        """Why to stop now, or nothing; `needed` are the seconds that saving and the report will take."""
        if self.asked:
            return "interrupted"
        if self.deadline is not None and time.monotonic() + needed >= self.deadline:
            return "budget"
        return ""

    def __enter__(self) -> Stopper:
        # Handlers can be set in the main thread only; elsewhere (a notebook's worker) there is just no flag.
        if threading.current_thread() is threading.main_thread():
            self.before = {each: signal.signal(each, self._ask) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self.before.items():
            signal.signal(each, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
