"""What all commands share: error messages, exit codes and the version."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., None]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "train"),
        (["train", "--model", "capsnett", "--data", "digits"], "did you mean 'capsnet'"),
        (["train", "--model", "capsnet", "--data", "digit"], "did you mean 'digits'"),
        (["train", "mnist-capsnt"], "did you mean 'mnist-capsnet'"),
        (["train", "mnist-capsnet", "--set", "training.epoch=1"], "did you mean 'training.epochs'"),
        (["train", "mnist-capsnet", "--set", "training.epochs"], "key=value"),
        (["train", "mnist-capsnet", "--sett", "x"], "--set"),
        (["train", "nosuch.toml"], "there is no file nosuch.toml"),
        (["train", "my/recipe"], "there is no file my/recipe"),
        (["train"], "name a recipe"),
        (["train", "--resume"], "no run"),
        (["train", "--model", "capsnet", "--data", "digits", "--budget", "soon"], "90m"),
        (["data", "mnits"], "did you mean 'mnist'"),
        (["data", "digits", "--set", "sise=3"], "did you mean 'size'"),
        (["data", "digits", "--set", "size"], "key=value"),
        (["predict", "x.png"], "no run"),
        (["evaluate"], "no run"),
    ],
)
def test_a_wrong_word_gets_a_suggestion(
    words: list[str], message: str, run: Run, capsys: pytest.CaptureFixture
) -> None:
    run(*words, code=2)
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("lr=0.1", "did you mean 'optimizer.lr'?"),
        ("training.lr=0.1", "did you mean 'optimizer.lr'?"),
        ("learning_rate=0.1", "did you mean 'optimizer.lr'?"),
        ("epochs=3", "did you mean 'training.epochs'?"),
        ("limit=100", "did you mean 'data.limit'?"),
        ("in_chans=3", "in_channels comes from the data set"),
        ("img_size=32", "image_size comes from the data set"),
        ("model.options.in_chans=3", "in_channels comes from the data set"),
        ("model.options.image_size=32", "image_size comes from the data set"),
        ("batch=32", "did you mean 'training.batch_size'?"),
        ("optimiser.lr=1", "did you mean 'optimizer.lr'?"),
        ("data.size=32", "write data.options.size"),
        ("model.routing=em", "write model.options.routing"),
    ],
)
def test_a_name_from_elsewhere_gets_a_hint(
    setting: str, hint: str, run: Run, capsys: pytest.CaptureFixture
) -> None:
    run("train", "--model", "capsnet_small", "--data", "digits", "--set", setting, code=2)
    assert hint in capsys.readouterr().err


def test_an_unknown_recipe_key_shows_the_five_nearest(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("train", "mnist-capsnet", "--set", "training.batchsize=1", code=2)
    message = capsys.readouterr().err
    nearest = message.partition("Nearest: ")[2].strip().rstrip(".").split(", ")
    assert nearest[0] == "training.batch_size"
    assert len(nearest) == 5


@pytest.mark.parametrize(
    "words",
    [
        ["train", "mnist-capsnet"],
        ["sweep", "mnist-capsnet", "--grid", "seed=1,2"],
        ["evaluate", "capsnet_small-mnist"],
        ["data", "mnist"],
        ["reproduce", "two-digits", "--quick"],
        ["compare", "--quick"],
    ],
)
def test_a_data_folder_that_does_not_exist_is_an_error(
    words: list[str], run: Run, capsys: pytest.CaptureFixture
) -> None:
    run(*words, "--data-dir", "/nonexistent", code=2)
    assert "'--data-dir'" in (error := capsys.readouterr().err)
    assert "'/nonexistent' does not exist" in error
    assert not Path("runs").exists()


def test_version(run: Run, capsys: pytest.CaptureFixture) -> None:
    from torchcaps import __version__

    run("--version")
    assert capsys.readouterr().out == f"torchcaps {__version__}\n"


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchcaps.cli import main

    monkeypatch.setenv("TORCHCAPS_DEBUG", "1")
    with pytest.raises(ValueError, match="unknown data set"):
        main(["data", "mnits"])


TINY_RUN = "train --model shared_capsnet --data digits --epochs 1 --set data.limit=40"


@pytest.mark.parametrize(
    ("command", "encoding"),
    [
        ("--help", "ascii"),
        pytest.param("models", "ascii", marks=pytest.mark.slow),
        pytest.param("data", "ascii", marks=pytest.mark.slow),
        ("data", "cp1252"),
        (TINY_RUN, "ascii"),
    ],
)
def test_output_works_in_any_encoding(command: str, encoding: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "torchcaps", *command.split()],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout) > 100
