import json
from pathlib import Path

import pytest

WORDS = (
    "sweep", "--model", "capsnet_cnn", "--data", "digits", "--epochs", "1", "--seeds", "2",
    "-s", "model.options={channels=[4, 4, 2], hidden=[16, 8]}", "-s", "data.limit=100",
    "-s", "evaluation.extra_datasets=[]", "--grid", "optimizer.lr=1e-7,0.01",
)  # fmt: skip


def test_a_sweep_prints_one_table_and_writes_json_and_a_figure(
    run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(*WORDS, "--out", "swept")
    lines = capsys.readouterr().out.splitlines()
    table = [line.split() for line in lines[-5:-2]]
    assert table[0][0] == "optimizer.lr"
    assert table[1][0] == "*"
    assert [row.count("±") for row in table] == [0, 2, 2]
    assert (tmp_path / "swept" / "sweep.png").is_file()
    summary = json.loads((tmp_path / "swept" / "sweep.json").read_text())
    assert len(summary["rows"]) == 2

    run(*WORDS, "--out", "swept", "--json")
    assert json.loads(capsys.readouterr().out)["best"] == summary["best"], "finished runs are read again"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "at least one --grid"),
        (("--grid", "optimizer.rate=1,2"), "unknown recipe key 'optimizer.rate'"),
        (("--grid", "optimizer.lr=1..2"), "needs --search"),
    ],
)
def test_mistakes_end_with_exit_code_2(
    run, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(*WORDS[:-2], *words, code=2)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
