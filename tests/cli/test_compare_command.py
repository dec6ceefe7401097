"""What `torchcaps compare` prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from torchcaps.cli import main
from torchcaps.experiments.compare import forms
from torchcaps.experiments.compare import run as running
from torchcaps.experiments.compare.forms import Form, PartSettings
from torchcaps.experiments.compare.speed import measure

TINY = Form(
    "quick",
    {"overlap": PartSettings("digits", size=18, epochs=1, batch_size=32, limit=64, test_limit=20)},
    types=2,
    trunk="conv6",
    seeds=1,
    routings=("dynamic",),
    speed_seconds=0.0,
)


@pytest.fixture(autouse=True)
def _tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick form of a second, in an empty folder; speeds are measured in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(forms.FORMS, "quick", TINY)
    monkeypatch.setattr(running, "measure_speed", lambda cell: measure(cell.identity()))


def run(*words: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as left:
        main(["compare", *words])
    assert (left.value.code or 0) == code


def test_comparison_says_how_long_it_takes_and_ends_with_table_and_report(
    capsys: pytest.CaptureFixture,
) -> None:
    run("--quick")
    printed = capsys.readouterr().out
    assert "8 cells; about " in printed
    assert "longest: " in printed
    assert "8/8 dynamic, vector, conv6: overlap, seed 0" in printed
    assert "dense layer" in printed
    assert "report: runs/compare-quick/report.html" in printed
    # The second time everything is there, and a single object is printed.
    run("--quick", "--json")
    table = json.loads(capsys.readouterr().out)
    assert [each["head"] for each in table["networks"]] == ["pooled", "dense", "uniform", "dynamic"]
    Path("runs/compare-quick/report.html").unlink()
    Path("results").mkdir()
    run("--report", "runs/compare-quick", "--record")
    assert Path("runs/compare-quick/report.html").is_file()
    assert json.loads(Path("results/compare.json").read_text()) == table
    page = Path("runs/compare-quick/report.html").read_text(encoding="utf-8")
    assert "<code>torchcaps compare --quick</code>" in page


def test_interruption_keeps_cells_and_prints_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def interrupt(*args: Any, **options: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(running, "compute_cell", interrupt)
        run("dynamic", "--quick", "--seeds", "1", "--out", "my folder", code=130)
    printed = capsys.readouterr().out
    assert "To continue: torchcaps compare dynamic --quick --seeds 1 --out 'my folder'" in printed
    assert len(list(Path("my folder/cells").glob("*.json"))) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "either --quick"),
        (["--quick", "--full"], "either --quick"),
        (["dynmic", "--quick"], "did you mean 'dynamic'"),
        (["--quick", "--pose", "matrices"], "did you mean 'matrix'"),
        (["--quick", "--trunk", "preakt"], "did you mean 'preact'"),
        (["--quick", "--seeds", "0"], "at least 1 seed"),
        (["--report", "nowhere"], "holds no comparison"),
        (["--report", "nowhere", "--quick"], "as it is"),
        (["--quick", "--record"], "no folder results"),
    ],
)
def test_wrong_words_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    run(*words, code=2)
    assert message in capsys.readouterr().err


def test_list_shows_routings_poses_and_trunks(capsys: pytest.CaptureFixture) -> None:
    run("--list")
    printed = capsys.readouterr().out
    for word in ("heinsen", "quaternion", "resnet20", "average pooling"):
        assert word in printed
