import signal
import time
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from support.tiny_runs import records_of, tiny_recipe
from torchcaps.training import Callback, train
from torchcaps.training.callbacks import Plan, Stopper
from torchcaps.training.checkpoint import Position


class Recorder(Callback):
    """Notes what is called."""

    def __init__(self, fail_at: int = -1) -> None:
        self.calls: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.fail_at = fail_at

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        assert (plan.images, plan.batches, plan.epochs) == (1442, 6, 2)
        self.calls.append("begin")

    def on_step_end(self, position: Position, totals: Tensor) -> None:
        assert totals[2] > 0
        self.calls.append("step")
        if position.step == self.fail_at:
            raise KeyError("a callback failed")

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        self.calls.append("epoch")
        self.records.append(record)

    def on_train_end(self, result: dict[str, Any]) -> None:
        assert result["status"] == "ended"
        self.calls.append("end")

    def close(self) -> None:
        self.calls.append("close")


def test_all_callbacks_are_called_in_order(tmp_path: Path) -> None:
    callbacks = [Recorder(), Recorder()]
    train(tiny_recipe("training.epochs=2"), tmp_path, callbacks=callbacks)
    epoch = ["step"] * 6 + ["epoch"]
    for each in callbacks:
        assert each.calls == ["begin", *epoch, *epoch, "end", "close"]
        assert [record["step"] for record in each.records] == [
            record["step"] for record in records_of(tmp_path) if "train" in record
        ]


def test_callbacks_are_closed_after_an_error(tmp_path: Path) -> None:
    callback = Recorder(fail_at=2)
    with pytest.raises(KeyError, match="a callback failed"):
        train(tiny_recipe("training.epochs=2"), tmp_path, callbacks=[callback])
    assert callback.calls == ["begin", "step", "step", "close"]
    early = Recorder()
    with pytest.raises(ValueError, match="no decoder"):
        train(tiny_recipe("loss.reconstruction=0.1"), tmp_path / "other", callbacks=[early])
    assert early.calls == ["close"]


def test_other_objects_are_refused_as_callbacks(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"objects of torchcaps\.training\.Callback"):
        train(tiny_recipe(), tmp_path, callbacks=[print])  # type: ignore[list-item]


def test_a_second_signal_interrupts_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stopper() as stopper:
        assert stopper.reason() == ""
        signal.raise_signal(signal.SIGINT)
        assert stopper.reason() == "interrupted"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_budget_leaves_time_to_save() -> None:
    stopper = Stopper(budget=60.0)
    assert stopper.deadline is not None
    assert stopper.deadline - time.monotonic() <= 60
    assert (stopper.reason(), stopper.reason(needed=61.0)) == ("", "budget")
