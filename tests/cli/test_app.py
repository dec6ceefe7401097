"""What all commands share: error messages, exit codes and the version."""

from collections.abc import Callable

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


def test_version(run: Run, capsys: pytest.CaptureFixture) -> None:
    from torchcaps import __version__

    run("--version")
    assert capsys.readouterr().out == f"torchcaps {__version__}\n"


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchcaps.cli import main

    monkeypatch.setenv("TORCHCAPS_DEBUG", "1")
    with pytest.raises(ValueError, match="unknown data set"):
        main(["data", "mnits"])
