"""A state file that is damaged, edited or from another run is refused in one sentence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from support.tiny_runs import tiny_recipe, weights_of
from torchcaps.models.weights import read_tensors, write_tensors
from torchcaps.training import RunError, train

Tensors = dict[str, Tensor]
Table = dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch."""
    folder = tmp_path_factory.mktemp("state") / "run"
    train(tiny_recipe("training.epochs=1"), folder)
    return folder


def first(tensors: Tensors, prefix: str) -> str:
    return next(name for name in tensors if name.startswith(prefix))


def drop(prefix: str) -> Callable[[Tensors, Table], None]:
    """Remove the first tensor whose name begins so."""
    return lambda tensors, table: tensors.__delitem__(first(tensors, prefix))


def drop_all(prefix: str) -> Callable[[Tensors, Table], None]:
    def damage(tensors: Tensors, table: Table) -> None:
        for name in [name for name in tensors if name.startswith(prefix)]:
            del tensors[name]

    return damage


def reshape(prefix: str) -> Callable[[Tensors, Table], None]:
    def damage(tensors: Tensors, table: Table) -> None:
        tensors[first(tensors, prefix)] = torch.zeros(3, 1, 2)

    return damage


def fill(prefix: str, value: float) -> Callable[[Tensors, Table], None]:
    def damage(tensors: Tensors, table: Table) -> None:
        tensors[first(tensors, prefix)].fill_(value)

    return damage


def convert(prefix: str) -> Callable[[Tensors, Table], None]:
    def damage(tensors: Tensors, table: Table) -> None:
        name = first(tensors, prefix)
        tensors[name] = tensors[name].to(torch.int32)

    return damage


def add(name: str) -> Callable[[Tensors, Table], None]:
    return lambda tensors, table: tensors.update({name: torch.zeros(2)})


def rename(name: str) -> Callable[[Tensors, Table], None]:
    """Give a moment of Adam the name of SGD's."""
    return lambda tensors, table: tensors.update({"optimizer.0.momentum_buffer": tensors.pop(name)})


def write(**changes: Any) -> Callable[[Tensors, Table], None]:
    return lambda tensors, table: table.update(changes)


def lose(name: str) -> Callable[[Tensors, Table], None]:
    return lambda tensors, table: table.__delitem__(name)


DAMAGES = {
    "weight missing": (drop("model."), "state of another model: .* is not in the file"),
    "weight too many": (add("model.other"), "state of another model: other is not in the model"),
    "weight of another shape": (reshape("model."), r"another model: .* is \[3, 1, 2\] in the file and"),
    "weight of another type": (convert("model."), "holds torch.int32"),
    "weight not finite": (fill("model.", float("nan")), "not finite"),
    "average missing": (drop("average."), "average.* is not in the file"),
    "average of another shape": (reshape("average."), r"average.* is \[3, 1, 2\] in the file"),
    "average not finite": (fill("average.", float("inf")), "not finite"),
    "sums missing": (drop("totals."), "totals.* is not in the file"),
    "sums of another shape": (reshape("totals."), r"totals.* is \[3, 1, 2\] in the file"),
    "moment missing": (drop("optimizer.0."), "state of another optimizer than Adam"),
    "moments missing": (drop_all("optimizer."), "state of another optimizer than Adam"),
    "moment of another shape": (reshape("optimizer.0.exp_avg"), r"optimizer.0.exp_avg\w* is \[3, 1, 2\]"),
    "moment NaN": (fill("optimizer.1.exp_avg", float("nan")), "optimizer.1.exp_avg.* NaN"),
    "moment of no parameter": (add("optimizer.999.exp_avg"), "optimizer.999.exp_avg is of no parameter"),
    "moment without number": (add("optimizer.x.exp_avg"), "optimizer.x.exp_avg is of no parameter"),
    "moment of another optimizer": (rename("optimizer.0.exp_avg"), "another optimizer than Adam"),
    "unknown part": (add("surprise.x"), "surprise.x is no part of a state"),
    "step is text": (write(step="6"), "step must be a whole number of at least 0, got '6'"),
    "step is negative": (write(step=-1), "step must be a whole number of at least 0, got -1"),
    "epoch is a fraction": (write(epoch=0.5), "epoch must be a whole number"),
    "records is a list": (write(records=[1]), "records must be a whole number"),
    "batch is true": (write(batch=True), "batch must be a whole number"),
    "seconds is text": (write(seconds="long"), "seconds must be a finite number"),
    "best is text": (write(best="good"), "best must be a number"),
    "ended is a number": (write(ended=1), "unknown ended 1"),
    "ended is unknown": (write(ended="soon"), "unknown ended 'soon'"),
    "position missing": (lose("waited"), "waited is missing"),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused(run: Path, tmp_path: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    path = folder / "state.safetensors"
    tensors, table = read_tensors(path)
    change(tensors, table)
    write_tensors(path, tensors, table)
    before = contents(folder)
    with pytest.raises(RunError, match=message) as error:
        train(tiny_recipe("training.epochs=2"), folder, resume=True)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert contents(folder) == before


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_a_file_that_is_no_state_is_refused(run: Path, tmp_path: Path, content: bytes | None) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    path = folder / "state.safetensors"
    path.write_bytes((folder / "last.safetensors").read_bytes() if content is None else content)
    with pytest.raises(RunError, match=str(path)) as error:
        train(tiny_recipe("training.epochs=2"), folder, resume=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [("adam", "sgd"), ("sgd", "adam"), ("plain sgd", "adam")],
)
def test_a_resumed_run_keeps_its_optimizer(tmp_path: Path, before: str, after: str) -> None:
    names = {"adam": ["adam"], "sgd": ["sgd", "0.9"], "plain sgd": ["sgd", "0"]}

    def settings(name: str) -> list[str]:
        keys = ("optimizer.name", "optimizer.momentum")
        return [f"{key}={value}" for key, value in zip(keys, names[name])]

    train(tiny_recipe("training.epochs=1", *settings(before)), tmp_path)
    files = contents(tmp_path)
    with pytest.raises(RunError, match=r"state of another optimizer than (SGD|Adam)"):
        train(tiny_recipe("training.epochs=2", *settings(after)), tmp_path, resume=True)
    assert contents(tmp_path) == files
    train(tiny_recipe("training.epochs=2", *settings(before)), tmp_path, resume=True)


@pytest.mark.parametrize(
    "change", [("optimizer.name=adamw",), ("training.ema_decay=0",), ("training.ema_decay=0.5",)]
)
def test_a_resumed_run_may_change_what_fits_its_state(run: Path, tmp_path: Path, change: tuple) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    assert train(tiny_recipe("training.epochs=2", *change), folder, resume=True)["epochs"] == 2
    assert weights_of(folder)
