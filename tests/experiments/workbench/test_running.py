from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from torchcaps.data.datasets.norb import SMALLNORB
from torchcaps.experiments.workbench import running
from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.given import norb_like
from torchcaps.experiments.workbench.running import reproduce
from torchcaps.experiments.workbench.study import Interrupted, Study


def nothing(study: Study) -> None:
    study.verdict(True, "99 % of it")


def claim_of(run=nothing, name: str = "sample") -> Claim:
    return Claim(name, "a claim", "nobody", "much data", "little data", 1, run)


def test_the_folder_of_another_experiment_is_left_alone(tmp_path: Path) -> None:
    reproduce(claim_of(), tmp_path, quick=True)
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(ValueError, match="holds the quick form of sample with seed 0: give another --out"):
        reproduce(claim_of(name="other"), tmp_path, quick=True)
    assert (tmp_path / "result.json").read_bytes() == before


@pytest.mark.parametrize("name", ["result.json", "recipe.toml"])
def test_the_folder_of_a_training_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("theirs")
    with pytest.raises(ValueError, match=rf"holds something else.*{name}.*give another --out"):
        reproduce(claim_of(), tmp_path, quick=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "theirs"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    with pytest.raises(ValueError, match=r"--out .*note is a file"):
        reproduce(claim_of(), tmp_path / "note", quick=True)


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"quick": true}'])
def test_a_damaged_study_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "study.json").write_text(damage)
    with pytest.raises(ValueError, match=r"study\.json is empty or damaged: give another --out, or remove"):
        reproduce(claim_of(), tmp_path, quick=True)


def test_a_seed_below_zero_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--seed must be 0 or more, got -1"):
        reproduce(claim_of(), tmp_path / "new", quick=True, seed=-1)
    assert not (tmp_path / "new").exists()


def test_a_data_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--data-dir .*elsewhere: there is no such folder"):
        reproduce(claim_of(), tmp_path / "new", data_dir=str(tmp_path / "elsewhere"))


def test_the_seconds_of_all_sittings_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    ends = [KeyboardInterrupt(), Interrupted("stopped (budget)"), ValueError("a fault"), None]

    def run(study: Study) -> None:
        clock[0] += 10
        if (end := ends.pop(0)) is not None:
            raise end

    assert reproduce(claim_of(run), tmp_path)["status"] == "interrupted"
    assert reproduce(claim_of(run), tmp_path)["status"] == "budget"
    with pytest.raises(ValueError, match="a fault"):
        reproduce(claim_of(run), tmp_path)
    assert reproduce(claim_of(run), tmp_path)["seconds"] == 40
    assert json.loads((tmp_path / "study.json").read_text())["seconds"] == 40


def test_the_result_tells_the_libraries_that_were_used(tmp_path: Path) -> None:
    environment = reproduce(claim_of(), tmp_path, quick=True)["environment"]
    for name in ("numpy", "scikit-learn", "matplotlib", "torch"):
        assert environment[name][0].isdigit()


@pytest.mark.parametrize(("quick", "data"), [(True, "little data"), (False, "much data")])
def test_the_data_is_told(tmp_path: Path, quick: bool, data: str) -> None:
    said: list[str] = []
    assert reproduce(claim_of(), tmp_path, quick=quick, say=said.append)["data"] == data
    assert said == [f"data: {data}"]
    assert f"Data: {data}" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_smallnorb_is_found_wherever_the_user_may_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHCAPS_DATA", str(tmp_path / "shared"))
    empty = tmp_path / "empty"
    empty.mkdir()
    used: list[tuple[str, str | None]] = []

    def run(study: Study) -> None:
        used.append((norb_like(study), study.data_dir))

    def told(out: str, data_dir: Path) -> str:
        return reproduce(claim_of(run), tmp_path / out, data_dir=str(data_dir))["data"]

    assert told("a", empty).startswith("rendered toys, as smallNORB is neither in --data-dir nor in")
    for name in SMALLNORB.sha256:
        for place in ("shared", "given"):
            (tmp_path / place / "smallnorb").mkdir(parents=True, exist_ok=True)
            (tmp_path / place / "smallnorb" / f"{name}.gz").touch()
    assert told("b", empty) == "smallNORB, from $TORCHCAPS_DATA"
    assert told("c", tmp_path / "given") == "smallNORB, from --data-dir"
    assert used == [("toys", str(empty)), ("smallnorb", None), ("smallnorb", str(tmp_path / "given"))]


def test_a_budget_that_is_used_up_stops_between_parts(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        time.sleep(0.01)
        study.keep("part", dict)

    found = reproduce(claim_of(run), tmp_path, budget=0.001)
    assert found["status"] == "budget"
    assert found["why"] == "stopped (budget) before part"
