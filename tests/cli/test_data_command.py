from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., None]


def test_data_lists_all_data_sets(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("data")
    assert "smallnorb" in capsys.readouterr().out


def test_data_describes_one_and_draws_a_contact_sheet(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("data", "digits", "--set", "size=16", "--out", "sheet.png")
    assert "1×16×16" in capsys.readouterr().out
    assert Path("sheet.png").is_file()


def test_missing_data_is_a_failure_not_a_usage_error(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("data", "folder:nowhere", code=1)
    assert "nowhere" in capsys.readouterr().err


def test_a_data_dir_must_exist(run: Run, capsys: pytest.CaptureFixture) -> None:
    Path("note").write_text("a file")
    run("data", "digits", "--data-dir", "nowhere", code=2)
    assert "'nowhere' does not exist" in capsys.readouterr().err
    run("data", "digits", "--data-dir", "note", code=2)
    assert "'note' is a file" in capsys.readouterr().err


def test_a_range_without_brackets_is_told_how_to_write_it(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("data", "shapes", "--set", "angle=-30,30", code=2)
    assert "--set angle=[-30,30]" in capsys.readouterr().err
    run("data", "shapes", "--set", "angle=[-30,30]", "--set", "count=20", "--out", "sheet.png")
