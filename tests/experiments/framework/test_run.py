from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from torchcaps.experiments.framework import run as run_module
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Claim, Study, StudyStopped


def simple_experiment(study: Study) -> None:
    study.add_verdict(True, "99 % of it")


def make_claim(run: Callable[[Study], None] = simple_experiment, name: str = "sample") -> Claim:
    return Claim(name, "a claim", "a paper", "large data", "small data", 1, run)


def test_folder_of_another_experiment_is_not_changed(tmp_path: Path) -> None:
    reproduce(make_claim(), tmp_path, quick=True)
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(ValueError, match="holds the quick form of sample with seed 0: give another --out"):
        reproduce(make_claim(name="other"), tmp_path, quick=True)
    assert (tmp_path / "result.json").read_bytes() == before


def test_folder_holds_one_form_and_one_seed(tmp_path: Path) -> None:
    reproduce(make_claim(), tmp_path, quick=True)
    with pytest.raises(ValueError, match="holds the quick form of sample with seed 0"):
        reproduce(make_claim(), tmp_path, quick=False)
    with pytest.raises(ValueError, match="seed 0"):
        reproduce(make_claim(), tmp_path, quick=True, seed=1)


@pytest.mark.parametrize("name", ["result.json", "recipe.toml"])
def test_folder_of_a_training_run_is_not_changed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("other content")
    with pytest.raises(ValueError, match=rf"holds a training run.*{name}.*give another --out"):
        reproduce(make_claim(), tmp_path, quick=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "other content"


def test_output_folder_must_not_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("a note")
    with pytest.raises(ValueError, match=r"--out .*note is a file"):
        reproduce(make_claim(), tmp_path / "note", quick=True)


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"quick": true}', '{"quick": true, "seed": 0}'])
def test_error_names_a_damaged_study_file(tmp_path: Path, damage: str) -> None:
    (tmp_path / "study.json").write_text(damage)
    with pytest.raises(ValueError, match=r"study\.json is empty or damaged: give another --out, or remove"):
        reproduce(make_claim(), tmp_path, quick=True)


def test_error_names_a_negative_seed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--seed must be 0 or more, got -1"):
        reproduce(make_claim(), tmp_path / "new", quick=True, seed=-1)
    assert not (tmp_path / "new").exists()


def test_error_names_a_missing_data_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--data-dir .*elsewhere: there is no such folder"):
        reproduce(make_claim(), tmp_path / "new", data_dir=str(tmp_path / "elsewhere"))


def test_seconds_of_all_sessions_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    exceptions = [KeyboardInterrupt(), StudyStopped("stopped (budget)"), ValueError("an error"), None]

    def run(study: Study) -> None:
        clock[0] += 10
        if (exception := exceptions.pop(0)) is not None:
            raise exception

    assert reproduce(make_claim(run), tmp_path)["status"] == "interrupted"
    assert reproduce(make_claim(run), tmp_path)["status"] == "budget"
    with pytest.raises(ValueError, match="an error"):
        reproduce(make_claim(run), tmp_path)
    assert reproduce(make_claim(run), tmp_path)["seconds"] == 40
    assert json.loads((tmp_path / "study.json").read_text())["seconds"] == 40


def test_result_has_the_versions_of_the_libraries(tmp_path: Path) -> None:
    environment = reproduce(make_claim(), tmp_path, quick=True)["environment"]
    for name in ("numpy", "scikit-learn", "matplotlib", "torch"):
        assert environment[name][0].isdigit()


@pytest.mark.parametrize(("quick", "data"), [(True, "small data"), (False, "large data")])
def test_log_result_and_report_name_the_data(tmp_path: Path, quick: bool, data: str) -> None:
    lines: list[str] = []
    assert reproduce(make_claim(), tmp_path, quick=quick, log=lines.append)["data"] == data
    assert lines == [f"data: {data}"]
    assert f"Data: {data}" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_used_up_budget_stops_between_two_steps(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        time.sleep(0.01)
        study.cached("part", dict)

    result = reproduce(make_claim(run), tmp_path, budget=0.001)
    assert result["status"] == "budget"
    assert result["message"] == "stopped (budget) before part"
