"""A full disk ends a run with one sentence, and the run can be resumed when there is room again."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from support.tiny_runs import records_of, tiny_recipe, weights_of
from torchcaps.models.weights import load_weights, read_tensors
from torchcaps.training import Callback, RunError, train
from torchcaps.training.checkpoint import Position

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that had room."""
    folder = tmp_path_factory.mktemp("whole")
    train(tiny_recipe(), folder, save_every=1e9)
    return folder


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> list[int]:
    """Let the `number`-th call of a function of `os`, and all later ones, find the disk full."""
    real: Callable[..., Any] = getattr(os, name)
    calls: list[int] = []

    def function(file: int, *arguments: Any) -> Any:
        calls.append(file)
        if len(calls) < number:
            return real(file, *arguments)
        # The end of what was written last is missing.
        os.ftruncate(file, max(0, os.fstat(file).st_size - 5))
        raise FULL

    monkeypatch.setattr(os, name, function)
    return calls


def check_same(whole: Path, resumed: Path) -> None:
    for file in ("last", "best", "state"):
        expected, tensors = weights_of(whole, file), weights_of(resumed, file)
        assert expected.keys() == tensors.keys()
        assert all(torch.equal(tensor, tensors[name]) for name, tensor in expected.items())
    assert records_of(resumed) == records_of(whole)


def check_intact(folder: Path) -> None:
    """All files of models and states can be read, and nothing temporary is left."""
    for path in folder.glob("*.safetensors"):
        read_tensors(path) if path.name == "state.safetensors" else load_weights(path)
    assert not [path for path in folder.iterdir() if path.name.startswith(".") or path.name == "run.lock"]


# Recipe, environment, metrics; in every epoch metrics, best model if it is, last model, state; the result.
SLOW = [pytest.param(number, marks=pytest.mark.slow) for number in (2, 4, 5, 6, 8, 11, 13, 14)]


@pytest.mark.parametrize("number", [1, 3, 7, 12, *SLOW])
def test_a_run_on_a_full_disk_can_be_resumed(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with monkeypatch.context() as patch:
        fail_at(patch, "fsync", number)
        with pytest.raises(RunError, match=r"No space left on device.*resume") as error:
            train(tiny_recipe(), tmp_path, save_every=1e9)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)
    check_intact(tmp_path)
    assert train(tiny_recipe(), tmp_path, save_every=1e9, resume=True)["status"] == "ended"
    check_same(whole, tmp_path)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6])
def test_a_resumed_run_on_a_full_disk_loses_nothing(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    class Stop(Callback):
        def on_step_end(self, position: Position, totals: object) -> None:
            if position.step == 9:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny_recipe(), tmp_path, save_every=0.0, callbacks=[Stop()])
    saved = (tmp_path / "state.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        fail_at(patch, "fsync", number)
        with pytest.raises(RunError, match="No space left on device"):
            train(tiny_recipe(), tmp_path, save_every=1e9, resume=True)
    assert (tmp_path / "state.safetensors").read_bytes() == saved
    check_intact(tmp_path)
    train(tiny_recipe(), tmp_path, save_every=1e9, resume=True)
    check_same(whole, tmp_path)


def test_a_disk_without_room_for_the_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        fail_at(patch, "write", 1)
        with pytest.raises(RunError, match="No space left on device"):
            train(tiny_recipe("training.epochs=1"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_is_reported_on_a_full_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Break(Callback):
        def on_step_end(self, position: Position, totals: object) -> None:
            fail_at(monkeypatch, "fsync", 1)
            monkeypatch.setattr("torchcaps.training.engine.gradients_finite", lambda *_: False)

    with pytest.raises(RunError, match=r"not finite.* could not be saved \(No space left on device\)"):
        train(tiny_recipe(), tmp_path, callbacks=[Break()])
    assert not (tmp_path / "failed.safetensors").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", str(folder)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as fault:
        pytest.skip(f"no file system can be mounted here: {fault}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_a_run_that_outgrows_its_disk_continues_on_a_larger_one(tmp_path: Path, small_disk: Path) -> None:
    recipe = tiny_recipe("training.epochs=12", "model.options.hidden=[256, 32]")
    train(recipe, tmp_path / "whole", keep_epochs=True)
    with pytest.raises(RunError, match="No space left on device"):
        train(recipe, small_disk / "run", keep_epochs=True)
    check_intact(small_disk / "run")
    epoch = read_tensors(small_disk / "run" / "state.safetensors")[1]["epoch"]
    assert 0 < epoch < 12
    subprocess.run(["mount", "-o", "remount,size=64M", str(small_disk)], check=True)
    train(recipe, small_disk / "run", keep_epochs=True, resume=True)
    check_same(tmp_path / "whole", small_disk / "run")
