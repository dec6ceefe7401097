from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from torchcaps.experiments.framework.figures import add_axes, new_figure
from torchcaps.experiments.framework.record import record_claim
from torchcaps.experiments.framework.seed_record import seed_path
from torchcaps.experiments.framework.seeds import reproduce_seeds
from torchcaps.experiments.framework.study import Claim, Study

runs: list[int] = []


def run(study: Study) -> None:
    """One of each item of a report; numbers depend on the seed."""
    runs.append(study.seed)
    study.record_settings("scenes", count=5)
    study.add_number("capsules.error", 3.0 + study.seed)
    study.add_table(
        "Errors",
        ["network", "error (%)", "holds"],
        [["capsules", 3.0 + study.seed, True], ["paper: CNN", 5.2, None]],
        caption=f"Seed {study.seed} of some.",
        marked=[1],
    )
    study.add_text(f"The error is {3.0 + study.seed:.1f} %.")
    for name in ("first", "main"):
        figure = new_figure(3, 2)
        add_axes(figure)[0].plot([0, 1], [study.seed, len(name)])
        study.add_figure(name, figure, caption=f"The {name} figure.")
    study.add_verdict(None, f"It is {study.seed} of 3.", question="Is it so?")


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    return numbers["capsules.error"] < 5, f"The error is {numbers['capsules.error']:.1f} %."


CLAIM = Claim("sample", "a claim", "a paper", "large", "small", 20, run, judge=judge, figure="main")


@pytest.fixture(autouse=True)
def no_runs() -> None:
    runs.clear()


def test_another_machine_continues_with_the_seeds_on_record(tmp_path: Path) -> None:
    records = tmp_path / "claims"
    reproduce_seeds(CLAIM, tmp_path / "here", seeds=2, records=records)
    there = reproduce_seeds(CLAIM, tmp_path / "there", seeds=3, records=records)
    assert runs == [0, 1, 2]  # the first two were not run again
    alone = reproduce_seeds(CLAIM, tmp_path / "alone", seeds=3)
    for name in ("numbers", "verdicts", "tables", "seeds", "code", "data", "trained_at"):
        assert there[name] == alone[name], name
    made, known = (
        json.loads(record_claim(CLAIM, tmp_path / each, tmp_path / f"{each}-claims").read_text())
        for each in ("alone", "there")
    )
    assert {**made, "hours": 0} == {**known, "hours": 0}
    figures = [(tmp_path / f"{each}-claims" / "sample.svg").read_bytes() for each in ("alone", "there")]
    assert figures[0] == figures[1]
    pages = [(tmp_path / each / "report.html").read_text(encoding="utf-8") for each in ("alone", "there")]
    for text in ("4.0 ± 1.0", "Is it so?", "The main figure."):
        assert all(text in page for page in pages), text


@pytest.mark.parametrize("change", ["code", "torchcaps", "name", "empty"])
def test_a_seed_of_other_code_or_version_is_run_again(change: str, tmp_path: Path) -> None:
    records = tmp_path / "claims"
    reproduce_seeds(CLAIM, tmp_path / "here", seeds=1, records=records)
    path = seed_path(CLAIM, 0, records)
    table = json.loads(path.read_text())
    (table["environment"] if change == "torchcaps" else table)[change] = "other"
    path.write_text("" if change == "empty" else json.dumps(table))
    reproduce_seeds(CLAIM, tmp_path / "there", seeds=1, records=records)
    assert runs == [0, 0]
    assert json.loads(path.read_text())["name"] == "sample"


def test_a_record_names_no_private_folder(tmp_path: Path) -> None:
    reproduce_seeds(CLAIM, tmp_path / "here", seeds=1, records=tmp_path / "claims", data_dir=str(tmp_path))
    text = seed_path(CLAIM, 0, tmp_path / "claims").read_text()
    assert str(tmp_path) not in text
    assert "command" not in json.loads(text)["environment"]


def test_a_seed_without_figures_is_recorded(tmp_path: Path) -> None:
    claim = replace(CLAIM, run=lambda study: study.add_number("capsules.error", 4.0))
    reproduce_seeds(claim, tmp_path / "here", seeds=1, records=tmp_path / "claims")
    assert [path.name for path in (tmp_path / "claims" / "seeds").iterdir()] == ["sample-0.json"]
