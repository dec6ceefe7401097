"""Output for programs: --json and --quiet."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.tiny_runs import records_of
from torchcaps.cli.app import app

NAMES = [command.callback.__name__ for command in app.registered_commands]
TRAIN = (
    "train", "--model", "capsnet_cnn", "--data", "digits", "--epochs", "2", "--out", "first",
    "-s", "model.options={channels=[4, 4, 2], hidden=[16, 8]}", "-s", "data.limit=100",
    "-s", "evaluation.extra_datasets=[]",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_command_can_be_quiet(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert "--quiet" in result.output


def test_train_prints_one_json_object_per_line(run, capsys: pytest.CaptureFixture[str]) -> None:
    run(*TRAIN, "--json")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.pop("event") for line in lines] == ["begin", "record", "record", "end"]
    assert (lines[0]["model"], lines[0]["step"]) == ("capsnet_cnn", 0)
    for line, record in zip(lines[1:-1], records_of(Path("first")), strict=True):
        assert record.items() <= line.items()
    assert lines[-1] == json.loads(Path("first/result.json").read_text())


def test_a_quiet_training_prints_nothing(run, capsys: pytest.CaptureFixture[str]) -> None:
    run(*TRAIN, "--quiet")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert Path("first/result.json").is_file()
    run(*TRAIN, "--quiet", code=2)
    assert "already holds a run" in capsys.readouterr().err, "errors are printed"


def test_quiet_keeps_json(run, capsys: pytest.CaptureFixture[str]) -> None:
    run("data", "--json", "--quiet")
    assert "digits" in [row["data"] for row in json.loads(capsys.readouterr().out)]
    run("data", "-q")
    assert capsys.readouterr().out == ""


def test_data_describes_a_set_as_json(run, capsys: pytest.CaptureFixture[str]) -> None:
    run("data", "digits", "--json", "--split", "test")
    facts = json.loads(capsys.readouterr().out)
    assert (facts["split"], facts["images"], facts["image_size"]) == ("test", 355, [8, 8])
    assert Path(facts["contact_sheet"]).is_file()


def test_models_as_json(run, capsys: pytest.CaptureFixture[str]) -> None:
    run("models", "--json", "--size", "28")
    listed = json.loads(capsys.readouterr().out)
    sizes = {row["model"]: row["num_params"] for row in listed["models"]}
    assert sizes["capsnet_small"] == 960_848
    assert {"model", "data", "sha256"} <= set(listed["pretrained"][0])
    run("models", "--json", "--size", "8")
    small = {row["model"]: row["num_params"] for row in json.loads(capsys.readouterr().out)["models"]}
    assert small["capsnet"] is None
