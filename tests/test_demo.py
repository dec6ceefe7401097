from pathlib import Path

import pytest

from torchcaps import demo
from torchcaps.demo import run_demo


def test_one_epoch_gives_a_table_and_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = run_demo(epochs=1, figure=tmp_path / "demo.png")
    assert set(results) == {"shared_capsnet", "pooled_cnn"}
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert "both, scores > 0.5" in capsys.readouterr().out


def test_without_matplotlib_there_are_numbers_and_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    results = demo.run_demo(epochs=1, figure=tmp_path / "demo.png")
    assert set(results) == {"shared_capsnet", "pooled_cnn"}
    assert not (tmp_path / "demo.png").exists()
    assert 'pip install "torchcaps[figures]"' in capsys.readouterr().out


@pytest.mark.slow
def test_capsules_read_two_digits_and_pooling_does_not(tmp_path: Path) -> None:
    results = run_demo(figure=tmp_path / "demo.png")
    capsules, pooled = results["shared_capsnet"], results["pooled_cnn"]
    assert capsules["single"] >= 98.5
    assert capsules["both_above_half"] >= 95
    assert pooled["both"] <= 60
    assert pooled["both_above_half"] <= 40
