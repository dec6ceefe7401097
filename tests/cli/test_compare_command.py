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
    Path("docs").mkdir()
    run("--report", "runs/compare-quick", "--record")
    assert Path("runs/compare-quick/report.html").is_file()
    assert Path("docs/compare.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(Path("results/compare.json").read_text())
    assert len(record.pop("cells")) == 8
    assert record | {"seconds": table["seconds"]} == table
    assert record["partial"] is False
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


def test_recorded_cells_count_as_finished_on_another_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    Path("results").mkdir()
    computed: list[str] = []
    compute = running.compute_cell

    def stops_after_two(cell: Any, *args: Any, **options: Any) -> dict[str, Any]:
        if len(computed) == 2:
            raise KeyboardInterrupt
        computed.append(cell.name)
        return compute(cell, *args, **options)

    monkeypatch.setattr(running, "compute_cell", stops_after_two)
    run("--quick", "--part", "overlap", "--record", code=130)
    first = json.loads(Path("results/compare.json").read_text())
    assert (len(first["cells"]), first["partial"]) == (2, True)
    # Elsewhere: another folder, and nothing but the record.
    monkeypatch.setattr(
        running,
        "compute_cell",
        lambda cell, *args, **options: computed.append(cell.name) or compute(cell, *args, **options),
    )
    run("--quick", "--part", "overlap", "--record", "--out", "elsewhere")
    assert len(computed) == len(set(computed)) == 4
    second = json.loads(Path("results/compare.json").read_text())
    assert second["cells"].items() >= first["cells"].items()
    assert len(second["cells"]) == 4
    # A folder that lacks what the record has keeps it, and the table has all of it.
    run("--report", "runs/compare-quick", "--record")
    third = json.loads(Path("results/compare.json").read_text())
    assert third["cells"] == second["cells"]
    assert len(third["networks"]) == 4
    capsys.readouterr()
    damaged = Path("results/compare.json").read_text().replace('"seed": 0', '"seed": 1')
    Path("results/compare.json").write_text(damaged)
    run("--report", "runs/compare-quick", "--record", code=2)
    assert "other settings than its digest says" in capsys.readouterr().err


def test_partial_comparison_says_so(capsys: pytest.CaptureFixture) -> None:
    run("--quick", "--part", "speed", "--out", "some")
    run("--quick", "--part", "overlap", "--out", "some")
    run("--quick", "--part", "overlap", "--seeds", "2", "--out", "some", "dynamic")
    for path in Path("some/cells").glob("dynamic-*-overlap-1-*"):
        path.unlink()
    capsys.readouterr()
    run("--report", "some", "--json")
    table = json.loads(capsys.readouterr().out)
    assert table["partial"] is True
    page = Path("some/report.html").read_text(encoding="utf-8")
    assert "Partial: not all cells are computed yet" in page
    assert '<th scope="col">seeds</th>' in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "either --quick"),
        (["--quick", "--full"], "either --quick"),
        (["dynmic", "--quick"], "did you mean 'dynamic'"),
        (["--quick", "--pose", "matrices"], "did you mean 'matrix'"),
        (["--quick", "--trunk", "preakt"], "did you mean 'preact'"),
        (["--quick", "--seeds", "0"], "seeds must be"),
        (["--quick", "--part", "overlaps"], "did you mean 'overlap'"),
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


def test_a_record_of_another_form_is_refused_before_anything_is_computed(
    capsys: pytest.CaptureFixture,
) -> None:
    Path("results").mkdir()
    Path("results/compare.json").write_text('{"form": "full"}')
    run("--quick", "--record", code=2)
    assert "holds the full form, which would be lost" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_report_takes_no_number_not_even_0(capsys: pytest.CaptureFixture) -> None:
    for words in (["--minutes", "0"], ["--seeds", "0"]):
        run("--report", "runs/compare", *words, code=2)
        assert "--report draws a folder again as it is" in capsys.readouterr().err
