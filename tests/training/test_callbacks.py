import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from support.tiny_runs import child_environment, records_of, tiny_recipe
from torchcaps.models.weights import read_tensors
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


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_saves_the_run(tmp_path: Path, name: str) -> None:
    if not hasattr(signal, name):
        pytest.skip(f"this platform has no {name}")
    number = getattr(signal, name)

    class Send(Callback):
        def on_step_end(self, position: Position, totals: object) -> None:
            if position.step == 4:
                signal.raise_signal(number)

    # Python would end at once where nothing else handles the signal.
    before = signal.signal(number, lambda *_: None)
    try:
        result = train(tiny_recipe(), tmp_path, callbacks=[Send()])
    finally:
        signal.signal(number, before)
    assert (result["status"], result["step"]) == ("interrupted", 4)
    assert read_tensors(tmp_path / "state.safetensors")[1]["step"] == 4


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this platform has no SIGHUP")
def test_nohup_still_ignores_a_hangup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stopper() as stopper:
            signal.raise_signal(signal.SIGHUP)
            assert stopper.reason() == ""
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# Tests that were started with nohup ignore the hangup, and their children inherit that.
CLOSED_TERMINAL = """
import os, pty, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
child, terminal = pty.fork()
if child == 0:
    from support.tiny_runs import tiny_recipe
    from torchcaps.training import Callback, train
    class Print(Callback):
        def on_step_end(self, position, totals):
            print("step", position.step, flush=True)
    train(tiny_recipe("training.epochs=1000000"), sys.argv[1], save_every=1e9, callbacks=[Print()])
    os._exit(7)
text = b""
while b"step 3" not in text:
    text += os.read(terminal, 100)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_closed_terminal_saves_the_run(tmp_path: Path) -> None:
    pytest.importorskip("pty")
    done = subprocess.run(
        [sys.executable, "-c", CLOSED_TERMINAL, str(tmp_path)], env=child_environment(), timeout=120
    )
    assert done.returncode == 7
    assert read_tensors(tmp_path / "state.safetensors")[1]["step"] >= 3


def test_a_budget_leaves_time_to_save() -> None:
    stopper = Stopper(budget=60.0)
    assert stopper.deadline is not None
    assert stopper.deadline - time.monotonic() <= 60
    assert (stopper.reason(), stopper.reason(needed=61.0)) == ("", "budget")
