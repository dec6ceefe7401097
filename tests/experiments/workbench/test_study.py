from __future__ import annotations

import json
import time
from html.parser import HTMLParser
from pathlib import Path
from shutil import rmtree

import pytest

from torchcaps.errors import RunError
from torchcaps.experiments.listing import NAMES, find_claim, list_claims
from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.drawing import axes_of, new_figure
from torchcaps.experiments.workbench.running import reproduce
from torchcaps.experiments.workbench.study import Interrupted, Study
from torchcaps.models import list_pretrained
from torchcaps.training import default_recipe

RECIPE = default_recipe("pooled_cnn", "digits").override(
    ["training.epochs=2", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]"]
)


def claim_of(run) -> Claim:
    return Claim("sample", "a < b & c", "nobody", "nothing", "nothing", 1, run)


def test_every_claim_is_told_and_has_its_own_file() -> None:
    claims = list_claims()
    assert [claim.name for claim in claims] == list(NAMES)
    for claim in claims:
        assert claim.claim
        assert claim.source
        assert claim.minutes > 0


def test_what_was_kept_is_not_computed_again(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, float]:
        calls.append(1)
        return {"value": 0.1}

    for _ in range(2):
        assert Study(tmp_path, quick=True).keep("part", compute) == {"value": 0.1}
    assert len(calls) == 1


def test_what_was_kept_is_computed_again_when_it_rests_on_another_training(tmp_path: Path) -> None:
    def measured(seed: int) -> float:
        study = Study(tmp_path, quick=True)
        weights = next(study.train("cnn", RECIPE.override([f"seed={seed}"])).parameters()).detach()
        return study.keep("sum", lambda: {"value": float(weights.sum())})["value"]

    first = measured(0)
    rmtree(tmp_path / "trained")
    assert measured(0) == first
    rmtree(tmp_path / "trained")
    assert measured(1) != first


def test_what_another_version_kept_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Study(tmp_path, quick=True).keep("part", lambda: {"value": 1})
    monkeypatch.setattr("torchcaps.__version__", "99")
    assert Study(tmp_path, quick=True).keep("part", lambda: {"value": 2}) == {"value": 2}


def test_what_was_kept_in_a_damaged_file_is_computed_again(tmp_path: Path) -> None:
    for damage in ("", "[1]", '{"value": 3}'):
        (tmp_path / "kept").mkdir(exist_ok=True)
        (tmp_path / "kept/part.json").write_text(damage)
        assert Study(tmp_path, quick=True).keep("part", lambda: {"value": 1}) == {"value": 1}


def test_a_training_that_ended_is_not_repeated(tmp_path: Path) -> None:
    first = Study(tmp_path, quick=True).train("cnn", RECIPE)
    stamp = (tmp_path / "trained/cnn/result.json").stat().st_mtime_ns
    second = Study(tmp_path, quick=True).train("cnn", RECIPE)
    assert (tmp_path / "trained/cnn/result.json").stat().st_mtime_ns == stamp
    for one, two in zip(first.parameters(), second.parameters()):
        assert one.equal(two)


def test_a_training_with_another_recipe_is_not_taken_for_this_one(tmp_path: Path) -> None:
    Study(tmp_path, quick=True).train("cnn", RECIPE)
    with pytest.raises(RunError, match="another recipe"):
        Study(tmp_path, quick=True).train("cnn", RECIPE.override(["training.epochs=3"]))


def test_a_training_begun_with_another_recipe_does_not_go_on_with_this_one(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        Study(tmp_path, quick=True, deadline=time.monotonic()).train("cnn", RECIPE)
    with pytest.raises(RunError, match="another recipe"):
        Study(tmp_path, quick=True).train("cnn", RECIPE.override(["training.epochs=3"]))


def test_data_may_move_while_a_training_goes_on_and_after_it_ended(tmp_path: Path) -> None:
    def study(place: str, deadline: float | None = None) -> Study:
        return Study(tmp_path / "study", quick=False, data_dir=str(tmp_path / place), deadline=deadline)

    with pytest.raises(Interrupted):
        study("a", time.monotonic()).train("cnn", RECIPE)
    moved = study("b c")
    moved.train("cnn", RECIPE)
    assert moved.recipes["cnn"]["data"]["dir"] == str(tmp_path / "b c")
    study("d").train("cnn", RECIPE)


def test_a_quick_form_asks_for_no_data_folder(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True, data_dir="somewhere")
    study.train("cnn", RECIPE)
    assert study.recipes["cnn"]["data"]["dir"] is None


def test_an_epoch_that_was_not_kept_is_missed(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    study.train("cnn", RECIPE, keep_epochs=True)
    assert len(study.epochs("cnn")) == 2
    study.epochs("cnn")[0].unlink()
    with pytest.raises(RunError, match=r"cnn lacks epoch-1\.safetensors.*remove that folder"):
        study.epochs("cnn")


def test_weights_that_come_with_torchcaps_are_told_exactly(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    entry = list_pretrained()[0]
    study.pretrained(entry["model"], entry["data"])
    told = study.result()["recipes"][f"{entry['model']} on {entry['data']}"]
    assert told["sha256"] == entry["sha256"] == study.basis[f"{entry['model']} on {entry['data']}"]
    assert told["epochs"] == entry["trained"]["epochs"]


def test_settings_are_told_and_must_stay(tmp_path: Path) -> None:
    for _ in range(2):
        study = Study(tmp_path, quick=True)
        study.settings("scenes", count=100, noises=(0.0, 0.02))
        study.settings("boats", wide=True)
        assert study.result()["recipes"]["scenes"] == {"count": 100, "noises": [0.0, 0.02]}
    with pytest.raises(RunError, match=r"other settings of scenes \(count\): give another --out"):
        Study(tmp_path, quick=True).settings("scenes", count=50, noises=(0.0, 0.02))


def test_what_was_kept_is_computed_again_when_settings_were_forgotten(tmp_path: Path) -> None:
    for count in (1, 2):
        study = Study(tmp_path, quick=True)
        study.settings("scenes", count=count)
        assert study.keep("part", lambda: {"value": count}) == {"value": count}  # noqa: B023
        (tmp_path / "settings.json").unlink()


def test_a_study_out_of_time_stops_saved_and_goes_on_to_the_same_end(tmp_path: Path) -> None:
    stopped = Study(tmp_path / "a", quick=True, deadline=time.monotonic())
    with pytest.raises(Interrupted):
        stopped.train("cnn", RECIPE)
    with pytest.raises(Interrupted):
        stopped.keep("part", dict)
    resumed = Study(tmp_path / "a", quick=True).train("cnn", RECIPE)
    straight = Study(tmp_path / "b", quick=True).train("cnn", RECIPE)
    for one, two in zip(resumed.parameters(), straight.parameters()):
        assert one.equal(two)


def test_the_seed_of_the_study_moves_every_training(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True, seed=5)
    study.train("cnn", RECIPE)
    assert study.recipes["cnn"]["seed"] == 5


def test_a_folder_holds_one_kind_of_run(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        study.verdict(True, "it does")

    reproduce(claim_of(run), tmp_path, quick=True)
    with pytest.raises(ValueError, match="holds the quick form of sample with seed 0"):
        reproduce(claim_of(run), tmp_path, quick=False)
    with pytest.raises(ValueError, match="seed 0"):
        reproduce(claim_of(run), tmp_path, quick=True, seed=1)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.words = ""

    def handle_starttag(self, tag, attributes) -> None:
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.words += data


def test_the_report_stands_alone_and_says_what_was_found(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        figure = new_figure()
        axes_of(figure)[0].plot([0, 1])
        study.figure("line", figure, caption="A line <rising>.")
        study.animation("moving", [figure, figure], caption="It moves.")
        study.table("Rows", ["name", "error (%)"], [["ours", 1.2345], ["theirs", None]], caption="See.")
        study.text("Plain words.")
        study.verdict(None, "In part.")
        study.number("ours.error", 1.2345)

    result = reproduce(claim_of(run), tmp_path, quick=True)
    for name in ("line.png", "line.svg", "moving.gif", "result.json", "report.html"):
        assert (tmp_path / name).stat().st_size > 0
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(json.dumps(result))
    assert result["numbers"] == {"ours.error": 1.2345}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert "A < b & c" in tags.words
    assert "1.234" in tags.words
    assert "Plain words." in tags.words
    assert "The claim holds in part" in tags.words
    assert not [tag for tag, _ in tags.seen if tag in ("script", "link", "iframe")]
    sources = [attributes["src"] for tag, attributes in tags.seen if tag == "img"]
    assert len(sources) == 2
    assert all(source.startswith("data:image/") for source in sources)


def test_an_unknown_claim_is_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'viewpoints'"):
        find_claim("viewpoint")
