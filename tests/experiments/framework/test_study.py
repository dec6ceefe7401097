from __future__ import annotations

import time
from pathlib import Path
from shutil import rmtree

import pytest

from torchcaps.errors import RunError
from torchcaps.experiments.framework.study import Study, StudyStopped
from torchcaps.models import list_pretrained
from torchcaps.training import default_recipe

RECIPE = default_recipe("pooled_cnn", "digits").override(
    ["training.epochs=2", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]"]
)


def test_cached_value_is_not_computed_again(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, float]:
        calls.append(1)
        return {"value": 0.1}

    for _ in range(2):
        assert Study(tmp_path, quick=True).cached("part", compute) == {"value": 0.1}
    assert len(calls) == 1


def test_cached_value_is_computed_again_after_another_training(tmp_path: Path) -> None:
    def weight_sum(seed: int) -> float:
        study = Study(tmp_path, quick=True)
        weights = next(study.train("cnn", RECIPE.override([f"seed={seed}"])).parameters()).detach()
        return study.cached("sum", lambda: {"value": float(weights.sum())})["value"]

    first = weight_sum(0)
    rmtree(tmp_path / "trained")
    assert weight_sum(0) == first
    rmtree(tmp_path / "trained")
    assert weight_sum(1) != first


def test_cached_value_of_another_version_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Study(tmp_path, quick=True).cached("part", lambda: {"value": 1})
    monkeypatch.setattr("torchcaps.__version__", "99")
    assert Study(tmp_path, quick=True).cached("part", lambda: {"value": 2}) == {"value": 2}


def test_cached_value_in_a_damaged_file_is_computed_again(tmp_path: Path) -> None:
    for damage in ("", "[1]", '{"value": 3}'):
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache/part.json").write_text(damage)
        assert Study(tmp_path, quick=True).cached("part", lambda: {"value": 1}) == {"value": 1}


def test_finished_training_is_not_repeated(tmp_path: Path) -> None:
    first = Study(tmp_path, quick=True).train("cnn", RECIPE)
    stamp = (tmp_path / "trained/cnn/result.json").stat().st_mtime_ns
    second = Study(tmp_path, quick=True).train("cnn", RECIPE)
    assert (tmp_path / "trained/cnn/result.json").stat().st_mtime_ns == stamp
    for one, two in zip(first.parameters(), second.parameters()):
        assert one.equal(two)


def test_finished_training_with_another_recipe_is_an_error(tmp_path: Path) -> None:
    Study(tmp_path, quick=True).train("cnn", RECIPE)
    with pytest.raises(RunError, match="another recipe"):
        Study(tmp_path, quick=True).train("cnn", RECIPE.override(["training.epochs=3"]))


def test_stopped_training_with_another_recipe_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StudyStopped):
        Study(tmp_path, quick=True, deadline=time.monotonic()).train("cnn", RECIPE)
    with pytest.raises(RunError, match="another recipe"):
        Study(tmp_path, quick=True).train("cnn", RECIPE.override(["training.epochs=3"]))


def test_data_folder_may_change_between_sessions(tmp_path: Path) -> None:
    def study(folder: str, deadline: float | None = None) -> Study:
        return Study(tmp_path / "study", quick=False, data_dir=str(tmp_path / folder), deadline=deadline)

    for folder in ("a", "b c", "d"):
        (tmp_path / folder).mkdir()
    with pytest.raises(StudyStopped):
        study("a", time.monotonic()).train("cnn", RECIPE)
    moved = study("b c")
    moved.train("cnn", RECIPE)
    assert moved.recipes["cnn"]["data"]["dir"] == str(tmp_path / "b c")
    study("d").train("cnn", RECIPE)


def test_quick_form_ignores_the_data_folder(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True, data_dir="somewhere")
    study.train("cnn", RECIPE)
    assert study.recipes["cnn"]["data"]["dir"] is None


def test_error_names_a_missing_epoch(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    study.train("cnn", RECIPE, keep_epochs=True)
    assert len(study.epoch_paths("cnn")) == 2
    study.epoch_paths("cnn")[0].unlink()
    with pytest.raises(RunError, match=r"cnn lacks epoch-1\.safetensors.*remove that folder"):
        study.epoch_paths("cnn")


def test_pretrained_weights_are_recorded_with_their_digest(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    entry = list_pretrained()[0]
    study.pretrained(entry["model"], entry["data"])
    recorded = study.results()["recipes"][f"{entry['model']} on {entry['data']}"]
    assert recorded["sha256"] == entry["sha256"] == study.dependencies[f"{entry['model']} on {entry['data']}"]
    assert recorded["epochs"] == entry["trained"]["epochs"]


def test_settings_are_recorded_and_must_not_change(tmp_path: Path) -> None:
    for _ in range(2):
        study = Study(tmp_path, quick=True)
        study.record_settings("scenes", count=100, noises=(0.0, 0.02))
        study.record_settings("boats", wide=True)
        assert study.results()["recipes"]["scenes"] == {"count": 100, "noises": [0.0, 0.02]}
    with pytest.raises(RunError, match=r"other settings of scenes \(count\): give another --out"):
        Study(tmp_path, quick=True).record_settings("scenes", count=50, noises=(0.0, 0.02))


def test_cached_value_is_computed_again_with_other_settings(tmp_path: Path) -> None:
    for count in (1, 2):
        study = Study(tmp_path, quick=True)
        study.record_settings("scenes", count=count)
        assert study.cached("part", lambda: {"value": count}) == {"value": count}  # noqa: B023
        (tmp_path / "settings.json").unlink()


def test_stopped_study_continues_to_the_same_weights(tmp_path: Path) -> None:
    stopped = Study(tmp_path / "a", quick=True, deadline=time.monotonic())
    with pytest.raises(StudyStopped):
        stopped.train("cnn", RECIPE)
    with pytest.raises(StudyStopped):
        stopped.cached("part", dict)
    resumed = Study(tmp_path / "a", quick=True).train("cnn", RECIPE)
    straight = Study(tmp_path / "b", quick=True).train("cnn", RECIPE)
    for one, two in zip(resumed.parameters(), straight.parameters()):
        assert one.equal(two)


def test_seed_of_the_study_is_added_to_the_recipe(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True, seed=5)
    study.train("cnn", RECIPE)
    assert study.recipes["cnn"]["seed"] == 5
