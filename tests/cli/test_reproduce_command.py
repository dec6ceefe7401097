"""What `torchcaps reproduce` says, and how it ends."""

import signal
from pathlib import Path

import pytest
from torch import Tensor

from torchcaps.cli import main
from torchcaps.cli.progress import LineProgress
from torchcaps.experiments import listing
from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.study import Study
from torchcaps.training import default_recipe
from torchcaps.training.checkpoint import Position

RECIPE = default_recipe("pooled_cnn", "digits").override(
    ["training.epochs=1", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]"]
)


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments are one: a small training."""

    def run(study: Study) -> None:
        study.train("cnn", RECIPE)
        study.verdict(True, "it does")

    made = Claim("sample", "a claim", "nobody", "much data", "little data", 1, run)
    monkeypatch.setattr(listing, "find_claim", lambda name: made)


def run(*words: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as left:
        main(["reproduce", *words])
    assert (left.value.code or 0) == code


@pytest.mark.usefixtures("claim")
def test_an_interrupted_experiment_says_so_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LineProgress, "on_step_end", impatient)
        run("sample", "--quick", "--out", "my folder", "--seed", "2", code=130)
    said = capsys.readouterr().out
    assert "interrupted after step 1, saved." in said
    assert "train --resume" not in said
    assert "Go on with: torchcaps reproduce sample --quick --out 'my folder' --seed 2" in said
    run("sample", "--quick", "--out", "my folder", "--seed", "2")
    said = capsys.readouterr().out
    assert "resuming after step 1" in said
    assert "Data: little data" in said


def impatient(watcher: LineProgress, position: Position, totals: Tensor) -> None:
    signal.raise_signal(signal.SIGINT)


def test_interrupted_between_trainings_it_says_so_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    made = Claim("sample", "a claim", "nobody", "much", "little", 1, interrupted)
    monkeypatch.setattr(listing, "find_claim", lambda name: made)
    run("sample", code=130)
    assert "Go on with: torchcaps reproduce sample\n" in capsys.readouterr().out


@pytest.mark.usefixtures("claim")
def test_a_budget_used_up_is_no_failure(capsys: pytest.CaptureFixture) -> None:
    run("sample", "--quick", "--budget", "0s")
    said = capsys.readouterr().out
    assert "train --resume" not in said
    assert "Go on with: torchcaps reproduce sample --quick" in said


@pytest.mark.usefixtures("claim")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--seed", "-1"], "--seed"),
        (["--data-dir", "nowhere"], "nowhere: there is no such folder"),
        (["--out", "note"], "--out note is a file"),
    ],
)
def test_a_wrong_option_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture) -> None:
    Path("note").write_text("mine")
    run("sample", *words, code=2)
    assert named in capsys.readouterr().err
