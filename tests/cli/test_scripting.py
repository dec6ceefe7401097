"""Output for programs and for people: --json, --quiet, --verbose and completion."""

import json
import os
import subprocess
import sys
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


# The name of the program decides the name of the variable by which a shell asks for completions.
COMPLETING = "import sys; sys.argv[0] = 'torchcaps'; from torchcaps.cli import main; main()"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_the_common_options(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    words = set(result.output.split())
    assert {"--json", "--quiet", "-q", "--verbose", "-v"} <= words


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
    assert "digits" in [row["data"] for row in json.loads(capsys.readouterr().out)["datasets"]]
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


def test_listings_are_one_object(run, capsys: pytest.CaptureFixture[str]) -> None:
    for words, key in (
        (["reproduce", "--list"], "experiments"),
        (["compare", "--list"], "routings"),
        (["data"], "datasets"),
        (["size", "capsnet_small", "--image", "28"], "layers"),
    ):
        run(*words, "--json")
        assert len(json.loads(capsys.readouterr().out)[key]) > 5, words


def test_the_demo_prints_its_numbers_and_nothing_else(run, capsys: pytest.CaptureFixture[str]) -> None:
    run("demo", "--epochs", "1", "--figure", "pairs.png", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert set(printed["percent"]) == {"shared_capsnet", "pooled_cnn"}
    assert Path(printed["figure"]).is_file()


def test_verbose_says_which_files_are_used(run, capsys: pytest.CaptureFixture[str]) -> None:
    run("models", "-v", "-q", code=2)
    assert "exclude each other" in capsys.readouterr().err
    run("predict", "nothing.png", "--run", "pooled_cnn-mnist", "-v", code=1)
    assert "pooled_cnn-mnist.safetensors" in capsys.readouterr().err
    run("predict", "nothing.png", "--run", "pooled_cnn-mnist", code=1)
    assert "pooled_cnn-mnist.safetensors" not in capsys.readouterr().err


def test_verbose_says_where_an_error_came_from(run, capsys: pytest.CaptureFixture[str]) -> None:
    run("data", "mnits", "--verbose", code=2)
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "registry.py" in error
    assert error.splitlines()[-1].startswith("torchcaps: unknown data set 'mnits'")


@pytest.mark.parametrize(
    ("line", "expected"), [("torchcaps tra", "train"), ("torchcaps train --trac", "--track")]
)
def test_the_shell_can_complete_commands_and_options(line: str, expected: str) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'torchcaps'; from torchcaps.cli import main; main()",
        ],
        env={**os.environ, **words, "_TORCHCAPS_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [expected], done.stderr
