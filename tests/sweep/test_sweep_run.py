"""A sweep selects on validation images, skips finished runs, resumes others, and survives failures."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import torchcaps.sweep.run as module
from support.tiny_runs import tiny_recipe
from torchcaps.errors import MissingExtraError, RunError
from torchcaps.sweep.figure import draw_sweep
from torchcaps.sweep.run import Sweep, SweepStoppedError, is_finished
from torchcaps.sweep.search import run_search
from torchcaps.sweep.space import folder_name, parse_space
from torchcaps.sweep.summary import Row, kept_accuracy, summarize

RECIPE = tiny_recipe(
    "training.epochs=2",
    "data.limit=320",
    "training.batch_size=32",
    "training.ema_decay=0",
    "data.val_fraction=0.2",
)
LRS = ["optimizer.lr=1e-7,0.01"]


def make(out: Path, grids: list[str] = LRS, seeds: int = 2, **options: Any) -> Sweep:
    return Sweep(RECIPE, parse_space(grids, ranges=True), out, seeds=seeds, **options)


@pytest.fixture
def fake_train(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Trainings that only write files: the validation accuracy is 0.5 + lr, the test accuracy 0.9 - lr."""
    calls: list[tuple[float, int]] = []

    def train(recipe: Any, out: Path, **_: Any) -> dict[str, Any]:
        calls.append((recipe.optimizer.lr, recipe.seed))
        lr = recipe.optimizer.lr
        out.mkdir(parents=True)
        epochs = [{"validation": {"accuracy": value, "loss": 1.0}} for value in (0.1, 0.5 + lr, 0.2)]
        (out / "metrics.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs))
        result = {"status": "ended", "metrics": {"test": {"accuracy": 0.9 - lr}}}
        (out / "result.json").write_text(json.dumps(result))
        return result

    monkeypatch.setattr(module, "train", train)
    monkeypatch.setattr(module, "recipe_task", lambda recipe: None)
    return calls


@pytest.mark.usefixtures("fake_train")
def test_the_page_on_sweeps_lists_every_field_of_the_summary(tmp_path: Path) -> None:
    make(tmp_path).run_grid()
    summary = json.loads((tmp_path / "sweep.json").read_text("utf-8"))
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text("utf-8")
    values = {"model.options.routing": "dynamic", "optimizer.lr": 0.003}
    assert f"`OUT/{folder_name(values)}/seed-0`" in page
    listed = re.findall(r"^\| `([\w.\[\]]+)` \|", page.partition("### sweep.json")[2], re.M)
    assert listed == [
        "recipe",
        "seeds",
        "rows",
        *(f"rows[].{field}" for field in summary["rows"][0]),
        "best",
    ]
    assert list(summary) == ["recipe", "seeds", "rows", "best"]
    [spread] = re.findall(r"^\| `rows\[\]\.validation` \| (.*) \|$", page, re.M)
    assert set(re.findall(r"`(\w+)`", spread)) == summary["best"]["validation"].keys()


def test_a_grid_of_real_runs(tmp_path: Path) -> None:
    lines: list[str] = []
    summary = make(tmp_path, report=lines.append).run_grid()
    assert sorted(row["values"]["optimizer.lr"] for row in summary["rows"]) == [1e-7, 0.01]
    means = [row["validation"]["mean"] for row in summary["rows"]]
    assert means == sorted(means, reverse=True)
    assert summary["best"] == summary["rows"][0]
    assert len(summary["best"]["validation"]["values"]) == 2
    settings = [("1e-07", 0), ("1e-07", 1), ("0.01", 0), ("0.01", 1)]
    assert lines == [
        f"[run {run} of 4] optimizer.lr={lr}, seed {seed}" for run, (lr, seed) in enumerate(settings, 1)
    ]
    folder = tmp_path / summary["best"]["folder"]
    assert all(is_finished(folder / f"seed-{seed}") for seed in (0, 1))
    assert json.loads((tmp_path / "sweep.json").read_text())["rows"] == summary["rows"]
    assert draw_sweep(summary, tmp_path / "sweep.png").stat().st_size > 5000

    lines.clear()
    again = make(tmp_path, ["optimizer.lr=1e-7,0.01,0.02"], seeds=1, report=lines.append).run_grid()
    assert lines == ["[run 3 of 3] optimizer.lr=0.02, seed 0"], (
        "finished runs are skipped although the grid has grown"
    )
    assert len(again["rows"]) == 3


def test_validation_decides_and_not_the_test(tmp_path: Path, fake_train: list[Any]) -> None:
    summary = make(tmp_path, ["optimizer.lr=0.1,0.3,0.2"]).run_grid()
    assert summary["best"]["values"] == {"optimizer.lr": 0.3}
    assert summary["best"]["validation"]["mean"] == pytest.approx(0.8)
    assert summary["best"]["test"]["mean"] == pytest.approx(0.6), "the worst test accuracy of all"
    assert [row["validation"]["sd"] for row in summary["rows"]] == [0, 0, 0]
    assert len(fake_train) == 6


def test_an_interrupted_sweep_stops_and_is_continued(
    tmp_path: Path, fake_train: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = module.train

    def stop_at_third(recipe: Any, out: Path, **options: Any) -> dict[str, Any]:
        assert options["resume"] is True
        return {"status": "interrupted"} if len(fake_train) == 2 else train(recipe, out, **options)

    monkeypatch.setattr(module, "train", stop_at_third)
    with pytest.raises(SweepStoppedError):
        make(tmp_path).run_grid()
    monkeypatch.setattr(module, "train", train)
    make(tmp_path).run_grid()
    assert fake_train == [(1e-7, 0), (1e-7, 1), (0.01, 0), (0.01, 1)]


def test_a_failed_run_is_reported_and_tried_again(
    tmp_path: Path, fake_train: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = module.train

    def fail(recipe: Any, out: Path, **options: Any) -> dict[str, Any]:
        if recipe.optimizer.lr == 0.01 and recipe.seed == 1:
            raise RunError("the loss is not finite")
        return train(recipe, out, **options)

    monkeypatch.setattr(module, "train", fail)
    summary = make(tmp_path).run_grid()
    assert summary["best"]["values"] == {"optimizer.lr": 1e-7}, "incomplete combinations come last"
    assert summary["rows"][1]["failures"] == {"1": "the loss is not finite"}
    monkeypatch.setattr(module, "train", train)
    assert make(tmp_path).run_grid()["best"]["values"] == {"optimizer.lr": 0.01}
    assert len(fake_train) == 4


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (["optimizer.lrr=1,2"], "unknown recipe key"),
        (["optimizer.lr=0.1,fast"], "optimizer.lr=fast.*must be a number"),
        (["loss.name=margin,hinge"], "loss.name=hinge"),
        (["model.options.hiden=[1, 2]"], "hidden"),
        (["model.name=capsnet_cnn,capsnt"], "model.name=capsnt"),
        (["data.preprocess.crop=4,100"], "crop=100"),
    ],
)
def test_every_value_is_checked_before_the_first_run(
    grids: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("a run was started"))
    with pytest.raises(ValueError, match=message):
        make(tmp_path / "new", grids).run_grid()
    assert not (tmp_path / "new").exists()


def test_another_recipe_needs_another_folder(tmp_path: Path, fake_train: list[Any]) -> None:
    make(tmp_path).run_grid()
    other = Sweep(tiny_recipe("data.val_fraction=0.2"), parse_space(LRS), tmp_path)
    with pytest.raises(ValueError, match="another recipe"):
        other.run_grid()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("")
    with pytest.raises(ValueError, match="something else"):
        make(foreign).run_grid()


def test_without_validation_images_a_tenth_is_held_out(tmp_path: Path) -> None:
    lines: list[str] = []
    sweep = Sweep(tiny_recipe(), parse_space(LRS), tmp_path, report=lines.append)
    assert sweep.recipe.data.val_fraction == 0.1
    assert "data.val_fraction=0.1" in lines[0]


def test_a_search_goes_towards_the_better_values_and_repeats_itself(
    tmp_path: Path, fake_train: list[Any]
) -> None:
    pytest.importorskip("optuna")
    grids = ["optimizer.lr=1e-4..0.1", "loss.name=margin,spread", "training.ema_decay=0.0..0.9"]
    first = run_search(make(tmp_path, grids, seeds=1), 6)
    assert len(fake_train) == 6
    again = run_search(make(tmp_path, grids, seeds=1), 30)
    assert len(fake_train) == 30, "the six finished runs were proposed again and skipped"
    assert {row["folder"] for row in first["rows"]} <= {row["folder"] for row in again["rows"]}
    assert again["best"]["values"]["optimizer.lr"] > 0.05
    later = [lr for lr, _ in fake_train[15:]]
    assert sum(later) / len(later) > 0.02, "drawn at random by orders of magnitude it would be 0.014"


def test_a_search_without_optuna_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"torchcaps\[sweep\]"):
        run_search(make(tmp_path), 3)


def test_the_kept_epoch_is_that_of_the_metric(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    epochs = [(0.7, 2.0), (0.8, 3.0), (0.6, 1.0)]
    lines = [{"loss": 5}] + [{"validation": {"accuracy": a, "loss": b}} for a, b in epochs]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert kept_accuracy(file, "accuracy") == 0.8
    assert kept_accuracy(file, "loss") == 0.6


def test_nothing_finished_is_no_best() -> None:
    row = Row({"a": 1}, folder_name({"a": 1}), [], [], {0: "failed"})
    assert summarize([row])["best"] is None
