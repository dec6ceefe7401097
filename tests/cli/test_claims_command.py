import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., None]


def test_claims_needs_a_checkout(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("claims", code=2)
    assert "run this in a checkout" in capsys.readouterr().err


def test_page_is_written(run: Run, capsys: pytest.CaptureFixture) -> None:
    Path("claims").mkdir()
    run("claims")
    assert "wrote CLAIMS.md" in capsys.readouterr().out
    run("claims", "--json")
    assert json.loads(capsys.readouterr().out) == {"written": ["CLAIMS.md"]}
    assert "`two-digits`" in Path("CLAIMS.md").read_text(encoding="utf-8")


def test_a_page_written_by_hand_is_kept(run: Run, capsys: pytest.CaptureFixture) -> None:
    Path("CLAIMS.md").write_text("# My own notes\n")
    run("claims", code=2)
    assert "move it away" in capsys.readouterr().err
    assert Path("CLAIMS.md").read_text() == "# My own notes\n"
