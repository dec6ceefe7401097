"""A small comparison from the first cell to the report, interrupted and continued."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcaps.experiments.compare import run as running
from torchcaps.experiments.compare.cells import (
    Cell,
    frame_of,
    is_finished,
    plan_cells,
    read_result,
    read_results,
    result_path,
)
from torchcaps.experiments.compare.data import load_part
from torchcaps.experiments.compare.forms import FORMS, SPEED, Form, PartSettings
from torchcaps.experiments.compare.measurements import accuracy
from torchcaps.experiments.compare.networks import BASELINES, HEADS, POSES, Network, choose_networks
from torchcaps.experiments.compare.report import write_report
from torchcaps.experiments.compare.run import Progress, compare
from torchcaps.experiments.compare.speed import measure
from torchcaps.experiments.compare.summary import MEASURES, better, summarize, winners
from torchcaps.experiments.compare.training import build
from torchcaps.training.callbacks import Callback
from torchcaps.training.checkpoint import Position

TINY = Form(
    "quick",
    {
        "digits": PartSettings(
            "digits", size=16, epochs=1, batch_size=32, limit=64, test_limit=20, attacked=4, pgd_steps=1
        ),
        "overlap": PartSettings("digits", size=18, epochs=1, batch_size=32, limit=64, test_limit=20),
    },
    types=2,
    seeds=2,
    speed_seconds=0.0,
)
NETWORKS = choose_networks(["dynamic"], trunks=["conv6"])


class Log(Progress):
    """Remembers the cells, and can stop in a chosen one."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.cells: list[Cell] = []
        self.stop_at = stop_at
        self.left = -1

    def on_estimate(self, estimate: Any) -> None:
        self.left = estimate.left

    def on_cell_begin(self, cell: Cell) -> None:
        self.cells.append(cell)

    def training_callback(self) -> Callback:
        return Interrupt() if len(self.cells) == self.stop_at else Callback()


class Interrupt(Callback):
    def on_step_end(self, position: Position, totals: Tensor) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _speed_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "measure_speed", lambda cell: measure(cell.identity()))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "measure_speed", lambda cell: measure(cell.identity()))
        assert compare(TINY, NETWORKS, out) == "ended"
    return out


def test_every_cell_has_a_result_and_a_second_run_computes_nothing(finished: Path) -> None:
    cells = plan_cells(TINY, NETWORKS, 2)
    # Two networks without capsules, uniform and dynamic routing; two parts, two seeds, one speed each.
    assert len(cells) == 4 * (2 * 2 + 1)
    assert all(is_finished(finished, cell) for cell in cells)
    before = {path: path.stat().st_mtime_ns for path in (finished / "cells").iterdir()}
    log = Log()
    assert compare(TINY, NETWORKS, finished, progress=log) == "ended"
    assert (log.cells, log.left) == ([], 0)
    assert before == {path: path.stat().st_mtime_ns for path in (finished / "cells").iterdir()}
    assert not list((finished / "training").glob("*"))


def test_all_networks_get_the_same_number_of_steps(finished: Path) -> None:
    results = read_results(finished, frame_of(TINY))
    steps = {(each["cell"]["part"], each["steps"]) for each in results if each["cell"]["part"] != SPEED}
    assert len(steps) == 2


def test_interrupted_comparison_continues_and_gives_the_same_numbers(finished: Path, tmp_path: Path) -> None:
    networks = NETWORKS[2:]
    log = Log(stop_at=4)
    assert compare(TINY, networks, tmp_path, seeds=1, progress=log) == "interrupted"
    *before, stopped = log.cells
    assert not is_finished(tmp_path, stopped)
    assert (tmp_path / "training" / stopped.name / "state.safetensors").is_file()
    again = Log()
    assert compare(TINY, networks, tmp_path, seeds=1, progress=again) == "ended"
    cells = plan_cells(TINY, networks, 1)
    assert [*before, *again.cells] == cells
    for cell in cells:
        if cell.part != SPEED:
            one, other = read_result(finished, cell), read_result(tmp_path, cell)
            assert one is not None
            assert other is not None
            assert one["values"] == other["values"]


def test_cell_that_fails_is_recorded_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = [Network("pooled", None, "conv6"), Network("uniform", "vector", "conv6")]
    original = running.compute_cell

    def fail(cell: Cell, *args: Any, **options: Any) -> dict[str, Any]:
        if cell.network.head == "pooled" and cell.part == "digits":
            raise RuntimeError("out of luck")
        return original(cell, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(running, "compute_cell", fail)
        assert compare(TINY, networks, tmp_path, seeds=1) == "ended"
    summary = summarize(tmp_path)
    assert summary.failures == [("average pooling, conv6: digits, seed 0", "RuntimeError: out of luck")]
    assert [row.network.head for row in summary.rows if "accuracy" in row.values] == ["uniform"]
    write_report(tmp_path)
    assert "out of luck" in (tmp_path / "report.html").read_text(encoding="utf-8")
    log = Log()
    compare(TINY, networks, tmp_path, seeds=1, progress=log)
    assert [cell.title() for cell in log.cells] == ["average pooling, conv6: digits, seed 0"]
    assert not summarize(tmp_path).failures


def test_training_over_the_limit_is_a_failure_that_says_what_to_do(tmp_path: Path) -> None:
    assert compare(TINY, NETWORKS[:1], tmp_path, seeds=1, minutes=1e-6) == "ended"
    messages = {message for _, message in summarize(tmp_path).failures}
    assert len(messages) == 1
    assert "raise --minutes" in messages.pop()


@pytest.mark.parametrize("change", [{"epochs": 2}, {"lr": 1e-3}, {"epsilon": 0.2}, {"test_limit": 19}])
def test_other_settings_are_another_cell(change: dict[str, Any], finished: Path) -> None:
    parts = {**TINY.parts, "digits": replace(TINY.parts["digits"], **change)}
    changed = replace(TINY, parts=parts)
    pairs = list(zip(plan_cells(TINY, NETWORKS, 2), plan_cells(changed, NETWORKS, 2)))
    for old, new in pairs:
        assert (old.name == new.name) == (old.part != "digits")
        assert is_finished(finished, new) == (new.part != "digits")
    # Cells of other settings stay in the folder and out of the comparison.
    assert {each["cell"]["part"] for each in read_results(finished, frame_of(changed))} == {SPEED, "overlap"}


def test_cells_differ_in_seed_network_and_options() -> None:
    cells = plan_cells(TINY, choose_networks(list(HEADS), list(POSES), ["conv6", "preact"]), 3)
    assert len({cell.name for cell in cells}) == len(cells)


def test_damaged_result_counts_as_none(tmp_path: Path) -> None:
    (cell, *_) = plan_cells(TINY, NETWORKS, 1)
    path = result_path(tmp_path, cell)
    path.parent.mkdir(parents=True)
    path.write_text('{"status": "en')
    assert not is_finished(tmp_path, cell)
    assert read_results(tmp_path, frame_of(TINY)) == []


class Tags(HTMLParser):
    """Checks that every tag is closed, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_report_has_every_network_and_its_numbers(finished: Path) -> None:
    table = write_report(finished)
    assert table == json.loads((finished / "summary.json").read_text(encoding="utf-8"))
    page = Tags()
    page.feed((finished / "report.html").read_text(encoding="utf-8"))
    assert not page.open
    for network in NETWORKS:
        assert network.title(with_trunk=False) in page.text
    assert (finished / "costs-accuracy.png").is_file()
    assert "2 seeds" in page.text
    assert "nan" not in page.text
    pooled = table["networks"][0]
    result = [
        read_result(finished, cell)
        for cell in plan_cells(TINY, NETWORKS, 2)
        if cell.network.head == "pooled" and cell.part == "digits"
    ]
    assert pooled["accuracy"]["seeds"] == [each["values"]["accuracy"] for each in result if each]
    assert pooled["accuracy"]["mean"] == sum(pooled["accuracy"]["seeds"]) / 2
    # The dense layer is built for one size of image.
    assert "two_digits" not in table["networks"][1]
    assert "two_digits" in table["networks"][2]


def test_baselines_are_always_there_with_the_poses_of_the_routings() -> None:
    networks = choose_networks(["em", "dynamic"], trunks=["preact", "conv6"])
    for trunk in ("preact", "conv6"):
        heads = [(each.head, each.pose) for each in networks if each.trunk == trunk]
        assert heads[:2] == [(name, None) for name in BASELINES]
        assert {("uniform", "matrix"), ("uniform", "vector")} < set(heads)
        assert len(heads) == 6


def test_quaternions_have_no_uniform_routing() -> None:
    heads = [each.head for each in choose_networks(["em_spherical"], ["quaternion"])]
    assert heads == ["pooled", "dense", "em_spherical"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["dynamc"],), "did you mean 'dynamic'"),
        ((["em"], ["matrx"]), "did you mean 'matrix'"),
        ((["em"], ["matrix"], ["preakt"]), "did you mean 'preact'"),
        ((["dynamic"], ["quaternion"]), "no routing works with pose quaternion"),
    ],
)
def test_wrong_names_are_refused_with_a_suggestion(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_networks(*arguments)


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"minutes": 0.0}, {"minutes": float("nan")}])
def test_wrong_numbers_are_refused_before_anything_is_computed(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        compare(TINY, NETWORKS, tmp_path / "new", **wrong)
    assert not (tmp_path / "new").exists()


def test_folder_of_another_experiment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").touch()
    with pytest.raises(ValueError, match="another experiment"):
        compare(TINY, NETWORKS, tmp_path)
    with pytest.raises(ValueError, match="no comparison"):
        summarize(tmp_path)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("part", TINY.parts)
def test_every_head_is_built_with_every_pose_and_about_as_many_parameters(head: str, part: str) -> None:
    images = load_part(part, TINY.parts[part])
    sizes = []
    for pose in HEADS[head].poses:
        form = replace(TINY, types=16, parts={part: TINY.parts[part]})
        cell = plan_cells(form, [Network(head, pose, "preact")], 1)[-1]
        model = build(cell, images.train)
        with torch.no_grad():
            assert model(torch.rand(2, 1, *images.train.image_size)).logits.shape == (2, 10)
        assert model.any_size
        sizes.append(sum(parameter.numel() for parameter in model.parameters()))
    assert max(sizes) < 1.1 * min(sizes)


@pytest.mark.parametrize("name", ["digits", "overlap"])
def test_no_test_or_validation_image_is_in_training(name: str) -> None:
    settings = replace(TINY.parts[name], size=36, limit=None, test_limit=None)
    images = load_part(name, settings)
    assert len(images.train) > 8 * len(images.validation)
    sets = [images.train, images.validation, *images.tests.values()]
    shape = images.train.image_size
    seen = [{each.numpy().tobytes() for each in one.images} for one in sets if one.image_size == shape]
    assert all(not seen[0] & other for other in seen[1:])


def test_accuracy_is_by_logits_where_scores_are_rounded_to_one() -> None:
    images = load_part("digits", TINY.parts["digits"]).tests["accuracy"]
    (cell,) = [
        each for each in plan_cells(TINY, [Network("em", "matrix", "conv6")], 1) if each.part == "digits"
    ]
    model = build(cell, images)
    original = model.forward

    def saturated(pixels: Tensor, target: Tensor | None = None) -> Any:
        output = original(pixels)
        logits = 100 + torch.nn.functional.one_hot(labels_of(pixels), 10) * 1e-2
        return output._replace(logits=logits, scores=torch.sigmoid(logits))

    def labels_of(pixels: Tensor) -> Tensor:
        known = (images.images.float() / 255).flatten(1)
        return images.labels[torch.cdist(pixels.flatten(1), known).argmin(1)]

    model.forward = saturated  # type: ignore[method-assign]
    assert accuracy(model, images) == 100


def test_chance_needs_several_seeds_and_a_real_difference() -> None:
    assert not better([99.0], [10.0], 1000)
    assert not better([90.0, 90.1], [90.0, 89.9], 1000)
    assert better([95.0, 95.2, 94.9], [90.0, 90.3, 89.8], 5000)
    # The same means, but seeds that differ more than the networks.
    assert not better([99.0, 91.0, 95.1], [85.0, 95.0, 90.1], 5000)
    # Few test images: the seeds agree by chance.
    assert not better([95.0, 95.1, 95.0], [90.0, 90.1, 90.0], 20)
    assert better([100.0, 100.0], [0.0, 0.0], 100)


def test_winners_are_better_than_all_their_baselines(finished: Path) -> None:
    summary = summarize(finished)
    measure = MEASURES[0]
    summary.counts[measure.key] = 10_000
    numbers = {
        "pooled": [80.0, 80.1],
        "dense": [95.0, 95.1],
        "uniform": [50.0, 50.1],
        "dynamic": [90.0, 90.1],
    }
    for row in summary.rows:
        row.values[measure.key] = numbers[row.network.head]
    dynamic = [Network("dynamic", "vector", "conv6")]
    assert winners(summary, measure, ("uniform",)) == (dynamic, [])
    assert winners(summary, measure, ("pooled", "dense")) == ([], dynamic)


def test_forms_name_known_routings_and_trunks() -> None:
    for form in FORMS.values():
        assert choose_networks(form.routings, trunks=[form.trunk])
        assert set(form.parts) == {"digits", "overlap", "views"}
