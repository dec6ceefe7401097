"""One process at a time writes into a run's folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.tiny_runs import child_environment, records_of, tiny_recipe
from torchcaps.training import Callback, Predictor, RunError, lock, train
from torchcaps.training.checkpoint import Position
from torchcaps.training.lock import RunLock

HOLD = """
import os, sys, time
from torchcaps.training.lock import RunLock
lock = RunLock(sys.argv[1])
if len(sys.argv) > 2:
    started, starting = os.pipe()
    if os.fork() == 0:
        os.write(starting, b"x")
        time.sleep(60)  # as a data worker that outlives its parent
    os.read(started, 1)  # a process that is killed in the middle of a fork is another case
print("locked", flush=True)
time.sleep(60)
"""


def hold(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A process that holds the lock of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *words],
        env=child_environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def write_lock(folder: Path, **owner: object) -> Path:
    path = folder / "run.lock"
    path.write_text(json.dumps({"pid": 1, "host": socket.gethostname(), "since": "noon", **owner}))
    return path


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture(params=["flock", "file"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With locks of the kernel, and on a file system that has none."""
    if request.param == "file":
        monkeypatch.setattr(lock, "_flock", lambda file: None)
    elif lock.fcntl is None:
        pytest.skip("this platform has no flock")
    return request.param


def test_a_second_resume_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    seen: list[str] = []

    class Second(Callback):
        def on_step_end(self, position: Position, totals: object) -> None:
            if position.step == 8:
                before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
                with pytest.raises(RunError) as refusal:
                    train(tiny_recipe(), tmp_path, resume=True)
                seen.append(str(refusal.value))
                assert before == {
                    path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()
                }
                Predictor.load(tmp_path)  # reading needs no lock

    train(tiny_recipe(), tmp_path, callbacks=[Second()])
    assert f"in use by process {os.getpid()} on {socket.gethostname()}" in seen[0]
    assert [record["epoch"] for record in records_of(tmp_path)] == [1, 2, 3]
    assert not (tmp_path / "run.lock").exists()


def test_a_failed_run_leaves_no_lock(tmp_path: Path) -> None:
    train(tiny_recipe("training.epochs=1"), tmp_path)
    with pytest.raises(ValueError, match="already holds a run"):
        train(tiny_recipe(), tmp_path)
    assert not (tmp_path / "run.lock").exists()
    (tmp_path / "state.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunError, match="damaged"):
        train(tiny_recipe(), tmp_path, resume=True)
    assert not (tmp_path / "run.lock").exists()


def test_another_process_is_named_while_it_runs_and_followed_when_it_is_killed(
    tmp_path: Path, kind: str
) -> None:
    process = hold(tmp_path)
    try:
        with pytest.raises(RunError, match=f"in use by process {process.pid} on {socket.gethostname()}"):
            RunLock(tmp_path)
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "run.lock").exists()
    RunLock(tmp_path).release()
    assert not (tmp_path / "run.lock").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_workers_that_outlive_a_killed_run_do_not_keep_it_locked(tmp_path: Path) -> None:
    process = hold(tmp_path, "fork")
    try:
        process.kill()
        process.wait()
        RunLock(tmp_path).release()
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path, kind: str) -> None:
    path = write_lock(tmp_path, pid=dead_pid())
    taken = RunLock(tmp_path)
    assert json.loads(path.read_text())["pid"] == os.getpid()
    taken.release()


def test_a_lock_from_another_host_is_refused_with_advice(tmp_path: Path, kind: str) -> None:
    path = write_lock(tmp_path, pid=77, host="elsewhere")
    with pytest.raises(RunError, match=rf"process 77 on another host, elsewhere.* delete {path} and start"):
        RunLock(tmp_path)
    assert json.loads(path.read_text())["host"] == "elsewhere"
    path.unlink()
    RunLock(tmp_path).release()


@pytest.mark.parametrize("text", ["", "[", "3", "[" * 100_000, '{"pid": "x"}'])
def test_a_file_that_names_nobody_is_taken_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.lock").write_text(text)
    RunLock(tmp_path).release()


def test_a_file_that_is_replaced_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, calls = write_lock(tmp_path), lock._flock, 0

    def replace_first(file: int) -> bool | None:
        nonlocal calls
        calls += 1
        if calls == 1:
            path.unlink()
        return real(file)

    monkeypatch.setattr(lock, "_flock", replace_first)
    held = RunLock(tmp_path)
    assert os.path.samestat(os.fstat(held.file), os.stat(path))
    held.release()
