from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from torchcaps.errors import RunError
from torchcaps.experiments.framework.figures import add_axes, new_figure
from torchcaps.experiments.framework.record import is_recorded, record_claim
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.seeds import code_digest, reproduce_seeds, run_seed, seeds_needed
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.framework.thumbnail import MAX_BYTES

ERRORS = (3.0, 4.0, 8.0)


def run(study: Study) -> None:
    """Two numbers that depend on the seed, a table, and a figure."""
    value = study.cached("error", lambda: {"error": ERRORS[study.seed]})["error"]
    study.add_number("capsules.error", value)
    study.add_number("CNN.error", 6.0)
    study.add_table(
        "Errors",
        ["network", "error (%)"],
        [["capsules", value], ["paper: CNN", 5.2]],
        caption="-",
        marked=[1],
    )
    figure = new_figure(3, 2)
    add_axes(figure)[0].plot([0, 1], [value, 6.0])
    study.add_figure("curve", figure, caption="A curve.")


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    ours, other = numbers["capsules.error"], numbers["CNN.error"]
    return ours < other, f"Capsules have {ours:.1f} %, the CNN has {other:.1f} %."


CLAIM = Claim("sample", "a claim", "a paper", "large", "small", 20, run, judge=judge)


def test_each_seed_has_its_folder_and_all_have_one_report(tmp_path: Path) -> None:
    result = reproduce_seeds(CLAIM, tmp_path, seeds=3)
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert result["seeds"] == [0, 1, 2]
    assert result["numbers"]["capsules.error"]["values"] == list(ERRORS)
    assert result["verdicts"][0]["seeds"] == [True, True, False]
    assert result["verdicts"][0]["sentence"].startswith("Capsules have 5.0 ± 2.6 %, the CNN has 6.0 %.")
    alone = json.loads((tmp_path / "seed-2" / "result.json").read_text())
    assert alone["numbers"]["capsules.error"] == 8
    assert alone["verdicts"][0]["holds"] is False
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "5.0 ± 2.6" in page
    assert "torchcaps reproduce sample --seeds 3" in page


def test_a_verdict_of_the_experiment_itself_is_not_doubled(tmp_path: Path) -> None:
    claim = replace(CLAIM, run=lambda study: (run(study), study.add_verdict(*judge(study.numbers)))[0])
    assert len(reproduce(claim, tmp_path)["verdicts"]) == 1


def test_stopped_seeds_continue_and_more_can_be_added(tmp_path: Path) -> None:
    computed = []

    def slow(study: Study) -> None:
        study.cached("a step", lambda: computed.append(study.seed) or {})
        if study.seed == 1 and len(computed) == 2:
            raise KeyboardInterrupt
        run(study)

    claim = replace(CLAIM, run=slow)
    assert reproduce_seeds(claim, tmp_path, seeds=2)["status"] == "interrupted"
    assert not (tmp_path / "result.json").exists()
    computed.append(99)
    assert reproduce_seeds(claim, tmp_path, seeds=3)["seeds"] == [0, 1, 2]
    assert computed == [0, 1, 99, 2]


def test_seeds_know_the_numbers_of_seed_0(tmp_path: Path) -> None:
    seen: dict[int, Mapping[str, float]] = {}
    claim = replace(CLAIM, run=lambda study: (seen.update({study.seed: dict(study.first)}), run(study))[1])
    reproduce_seeds(claim, tmp_path / "one", seeds=2)
    assert seen == {0: {}, 1: {"capsules.error": 3.0, "CNN.error": 6.0}}
    # In another folder, they are read from the record.
    records = tmp_path / "claims"
    run_seed(claim, tmp_path / "two", 0, records=records)
    seen.clear()
    run_seed(claim, tmp_path / "three", 1, records=records)
    run_seed(claim, tmp_path / "four", 1)
    assert seen == {1: {}}
    run_seed(claim, tmp_path / "five", 2, records=records)
    assert seen[2] == {"capsules.error": 3.0, "CNN.error": 6.0}


def test_budget_is_that_of_all_seeds(tmp_path: Path) -> None:
    assert reproduce_seeds(CLAIM, tmp_path, seeds=3, budget=0.0)["status"] == "budget"


def test_folder_of_one_seed_is_not_used_for_several(tmp_path: Path) -> None:
    reproduce(CLAIM, tmp_path / "one")
    with pytest.raises(ValueError, match="with seed 0: give another --out"):
        reproduce_seeds(CLAIM, tmp_path / "one", seeds=3)
    reproduce_seeds(CLAIM, tmp_path / "many", seeds=3)
    with pytest.raises(ValueError, match="with several seeds: give another --out"):
        reproduce(CLAIM, tmp_path / "many")


@pytest.mark.parametrize(("minutes", "fixed", "seeds"), [(9, False, 5), (10, False, 3), (9, True, 1)])
def test_short_experiments_have_more_seeds(minutes: int, fixed: bool, seeds: int) -> None:
    assert seeds_needed(replace(CLAIM, minutes=minutes, deterministic=fixed)) == seeds


def test_a_claim_may_ask_for_more_seeds() -> None:
    assert seeds_needed(replace(CLAIM, minutes=45, seeds=5)) == 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    reproduce_seeds(CLAIM, tmp_path / "run", seeds=3)
    return tmp_path / "run"


def test_a_record_holds_what_the_run_wrote(folder: Path, tmp_path: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    record: dict[str, Any] = json.loads(record_claim(CLAIM, folder, tmp_path / "claims").read_text())
    for name in ("numbers", "verdicts", "seeds", "data", "claim", "source", "tables"):
        assert record[name] == result[name], name
    assert record["command"] == "torchcaps reproduce sample --seeds 3"
    assert record["published"] == ["paper: CNN: error 5.2 %"]
    assert record["environment"]["processor"] == result["environment"]["processor"]
    assert record["commit"] == result["environment"]["git"]["commit"]
    assert record["changed"] == result["environment"]["git"]["changed"]
    assert record["figure"] == "sample.svg"
    copied = tmp_path / "claims" / "sample.svg"
    assert copied.read_bytes() == (folder / "seed-0" / "curve.svg").read_bytes()
    # Nothing of a private machine: neither folders nor the words of the command line.
    assert str(tmp_path) not in json.dumps(record)


def test_published_numbers_can_be_given_in_words(folder: Path, tmp_path: Path) -> None:
    claim = replace(CLAIM, published="the paper has 5.2 %")
    record = json.loads(record_claim(claim, folder, tmp_path).read_text())
    assert record["published"] == ["the paper has 5.2 %"]


def test_a_large_figure_becomes_a_small_png(tmp_path: Path) -> None:
    import numpy as np

    def noisy(study: Study) -> None:
        run(study)
        figure = new_figure(8, 6)
        add_axes(figure)[0].imshow(np.random.default_rng(0).random((400, 400, 3)), interpolation="nearest")
        study.add_figure("noise", figure, caption="Noise.")

    claim = replace(CLAIM, run=noisy, figure="noise", deterministic=True)
    reproduce_seeds(claim, tmp_path / "run", seeds=1)
    (tmp_path / "sample.svg").write_text("of an earlier record")
    record = json.loads(record_claim(claim, tmp_path / "run", tmp_path).read_text())
    assert record["figure"] == "sample.png"
    assert 1000 < (tmp_path / "sample.png").stat().st_size <= MAX_BYTES
    assert not (tmp_path / "sample.svg").exists()


def test_only_full_forms_with_enough_seeds_are_recorded(folder: Path, tmp_path: Path) -> None:
    reproduce_seeds(CLAIM, tmp_path / "quick", seeds=3, quick=True)
    with pytest.raises(ValueError, match="the full form"):
        record_claim(CLAIM, tmp_path / "quick", tmp_path)
    reproduce_seeds(CLAIM, tmp_path / "two", seeds=2)
    with pytest.raises(ValueError, match="at least 3 seeds, got 2"):
        record_claim(CLAIM, tmp_path / "two", tmp_path)
    record_claim(replace(CLAIM, deterministic=True), tmp_path / "two", tmp_path)
    with pytest.raises(RunError, match="run it to its end"):
        record_claim(CLAIM, tmp_path / "nowhere", tmp_path)
    with pytest.raises(RunError, match="no result of other"):
        record_claim(replace(CLAIM, name="other"), folder, tmp_path)


def test_a_record_of_other_code_or_fewer_seeds_does_not_count(folder: Path, tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    assert not is_recorded(CLAIM, 3, claims)
    path = record_claim(CLAIM, folder, claims)
    assert is_recorded(CLAIM, 3, claims)
    assert not is_recorded(CLAIM, 4, claims)
    path.write_text(path.read_text().replace(code_digest(CLAIM), "0" * 64))
    assert not is_recorded(CLAIM, 3, claims)


def test_code_of_a_package_is_that_of_all_its_files() -> None:
    from torchcaps.experiments import boats, overlap

    assert code_digest(boats.CLAIM) != code_digest(overlap.CLAIM) != ""
    assert code_digest(CLAIM) == code_digest(replace(CLAIM, name="other"))


CHANGED = """
def judge(numbers):
    return False, "no"


def run(study):
    study.add_number("error", {error})


from torchcaps.experiments.framework.study import Claim

CLAIM = Claim("made", "claim", "source", "data", "data", 1, run, judge)
"""


def claim_of(path: Path, text: str) -> Claim:
    path.parent.mkdir()
    path.write_text(text)
    spec = spec_from_file_location(f"made_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CLAIM


def test_a_changed_judge_is_the_same_code_but_a_changed_measurement_is_not(tmp_path: Path) -> None:
    first, judged, measured = (
        claim_of(tmp_path / name / "made.py", text)
        for name, text in {
            "first": CHANGED.format(error=1),
            "judged": CHANGED.format(error=1).replace('"no"', '"it is not so"'),
            "measured": CHANGED.format(error=2),
        }.items()
    )
    assert code_digest(judged) == code_digest(first) != code_digest(measured)
