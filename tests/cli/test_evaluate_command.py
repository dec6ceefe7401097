import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

Run = Callable[..., None]


def test_evaluate_prints_tables_and_draws_a_figure(
    run: Run, trained: Path, capsys: pytest.CaptureFixture
) -> None:
    run("evaluate", trained, "--figure", "confusion.png")
    output = capsys.readouterr().out
    assert "accuracy" in output
    assert "precision" in output
    assert Image.open("confusion.png").size[0] > 400


def test_evaluate_prints_json(run: Run, trained: Path, capsys: pytest.CaptureFixture) -> None:
    run("evaluate", trained, "--json")
    result = json.loads((trained / "result.json").read_text())
    assert json.loads(capsys.readouterr().out)["accuracy"] == result["metrics"]["test"]["accuracy"]
    run("evaluate", trained, "--data", "two_digits", "--json")
    assert json.loads(capsys.readouterr().out)["count"] == 355
