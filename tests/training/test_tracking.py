"""Metrics reach a tracker through Accelerate; the packages of the trackers are replaced by recorders."""

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from support.tiny_runs import records_of, tiny_recipe
from torchcaps.errors import MissingExtraError
from torchcaps.training import train
from torchcaps.training.tracking import tracking_callbacks

RECIPE = tiny_recipe("training.epochs=2", "data.limit=200", "training.batch_size=100")


class Recorder(ModuleType):
    """Stands for the packages wandb and mlflow; records what Accelerate calls."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # Accelerate looks for it
        self.starts: list[dict[str, Any]] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.configuration: dict[str, Any] = {}
        self.finished = 0
        limits = SimpleNamespace(MAX_PARAM_VAL_LENGTH=500, MAX_PARAMS_TAGS_PER_BATCH=100)
        self.utils = SimpleNamespace(validation=limits)
        self.config = SimpleNamespace(update=self.update)

    def update(self, values: dict[str, Any], **_: Any) -> None:
        self.configuration |= values

    def init(self, **options: Any) -> Any:
        self.starts.append(options)

        def log(values: dict[str, float], step: int) -> None:
            self.logged.append((step, values))

        return SimpleNamespace(id=options.get("id") or "new-id", log=log, finish=self.end_run)

    def search_experiments(self, filter_string: str) -> list[Any]:
        return []

    def create_experiment(self, **_: Any) -> str:
        return "7"

    def start_run(self, run_id: str | None, **options: Any) -> Any:
        self.starts.append({"id": run_id, **options} if run_id else options)
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id or "new-id"))

    def log_params(self, values: dict[str, Any]) -> None:
        self.configuration |= values

    def log_metrics(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values))

    def end_run(self) -> None:
        self.finished += 1


@pytest.fixture(params=["wandb", "mlflow"])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder(request.param)
    monkeypatch.setitem(sys.modules, request.param, recorder)
    return recorder


def test_every_record_is_sent_with_its_step(package: Recorder, tmp_path: Path) -> None:
    out = tmp_path / "first"
    result = train(RECIPE, out, callbacks=tracking_callbacks([package.__name__], RECIPE))
    assert len(package.starts) == package.finished == 1
    assert "first" in package.starts[0].values()
    assert package.configuration["optimizer.lr"] == RECIPE.optimizer.lr
    assert package.configuration["model.options.hidden"] == "[16, 8]"
    *records, last = package.logged
    expected = records_of(out)
    assert [step for step, _ in records] == [record["step"] for record in expected]
    for (_, sent), record in zip(records, expected, strict=True):
        assert sent["train/loss"] == record["train"]["loss"]
        assert sent["test/accuracy"] == record["test"]["accuracy"]
    assert last == (result["step"], pytest.approx(last[1]))
    assert last[1]["final/test/accuracy"] == result["metrics"]["test"]["accuracy"]


def test_a_resumed_run_continues_the_same_run_of_the_tracker(package: Recorder, tmp_path: Path) -> None:
    for epochs in (1, 2):
        recipe = RECIPE.override([f"training.epochs={epochs}"])
        callbacks = tracking_callbacks([package.__name__], recipe)
        train(recipe, tmp_path / "run", resume=True, callbacks=callbacks)
        package.configuration.clear()
    assert "id" not in package.starts[0]
    assert package.starts[1]["id"] == "new-id"
    assert json.loads((tmp_path / "run" / "tracking.json").read_text()) == {package.__name__: "new-id"}
    assert package.finished == 2
    assert package.configuration == {}


def test_a_failed_run_closes_the_tracker(package: Recorder, tmp_path: Path) -> None:
    callbacks = tracking_callbacks([package.__name__], RECIPE)
    callbacks[0].on_record = lambda numbers: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        train(RECIPE, tmp_path, callbacks=callbacks)
    assert package.finished == 1


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"--track {name} needs .*torchcaps\[{name}\]"):
        tracking_callbacks([name], RECIPE)


def test_tensorboard_needs_no_callback(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    assert tracking_callbacks(["tensorboard"], RECIPE) == []
