from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from torchcaps.training.state import Position


class Plan(NamedTuple):
    """What a run is about to do."""

    run: str
    model: str
    weights: int
    data: str
    images: int
    batches: int
    batch_size: int
    epochs: int
    device: str
    processes: int


class Watcher:
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
