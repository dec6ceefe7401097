import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., None]


def test_a_finished_run_is_added_to_the_page(run: Run, trained: Path, capsys: pytest.CaptureFixture) -> None:
    run("results", trained)
    assert "wrote RESULTS.md" in capsys.readouterr().out
    file = Path("results", f"{trained.name}.json")
    assert file.is_file()
    run("results", trained, "--json")
    facts = {"page": "RESULTS.md", "records": [str(file)], "shipped": []}
    assert json.loads(capsys.readouterr().out) == facts
    assert "shared_capsnet" in Path("RESULTS.md").read_text(encoding="utf-8")


def test_results_needs_a_checkout_or_a_run(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("results", code=2)
    assert "there is no folder results/" in capsys.readouterr().err


def test_a_page_written_by_hand_is_kept(run: Run, trained: Path, capsys: pytest.CaptureFixture) -> None:
    Path("RESULTS.md").write_text("# My own notes\n")
    run("results", trained, code=2)
    assert "move it away" in capsys.readouterr().err
    assert Path("RESULTS.md").read_text() == "# My own notes\n"
