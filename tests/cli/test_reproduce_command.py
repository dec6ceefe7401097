"""What `torchcaps reproduce` prints, and its exit codes."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from torchcaps.cli import main
from torchcaps.cli.progress import LineProgress
from torchcaps.experiments import listing
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.training import default_recipe
from torchcaps.training.checkpoint import Position

RECIPE = default_recipe("pooled_cnn", "digits").override(
    ["training.epochs=1", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]"]
)


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all experiments by one short training."""

    def experiment(study: Study) -> None:
        study.train("cnn", RECIPE)
        study.add_table("Rows", ["name", "error (%)"], [["a", 12.5], ["b", None]], caption="A caption.")
        study.add_verdict(True, "It does.")

    sample = Claim("sample", "a claim", "a paper", "large data", "small data", 1, experiment)
    monkeypatch.setattr(listing, "find_claim", lambda name: sample)


def run(*words: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as left:
        main(["reproduce", *words])
    assert (left.value.code or 0) == code


@pytest.mark.usefixtures("claim")
def test_interrupted_experiment_prints_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LineProgress, "on_step_end", interrupt)
        run("sample", "--quick", "--out", "my folder", "--seed", "2", code=130)
    printed = capsys.readouterr().out
    assert "after step 1" in printed
    assert "train --resume" not in printed
    assert "To continue: torchcaps reproduce sample --quick --out 'my folder' --seed 2" in printed
    run("sample", "--quick", "--out", "my folder", "--seed", "2")
    printed = capsys.readouterr().out
    assert "after step 1" in printed
    assert "Data: small data" in printed


def interrupt(callback: LineProgress, position: Position, tally: Tensor) -> None:
    signal.raise_signal(signal.SIGINT)


def test_interruption_between_two_trainings_prints_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def experiment(_: object) -> None:
        raise KeyboardInterrupt

    sample = Claim("sample", "a claim", "a paper", "large", "small", 1, experiment)
    monkeypatch.setattr(listing, "find_claim", lambda name: sample)
    run("sample", code=130)
    assert "To continue: torchcaps reproduce sample\n" in capsys.readouterr().out


@pytest.mark.usefixtures("claim")
def test_used_up_budget_is_not_an_error(capsys: pytest.CaptureFixture) -> None:
    run("sample", "--quick", "--budget", "0s")
    printed = capsys.readouterr().out
    assert "train --resume" not in printed
    assert "To continue: torchcaps reproduce sample --quick" in printed


@pytest.mark.usefixtures("claim")
def test_result_is_printed_with_numbers_as_in_the_report(capsys: pytest.CaptureFixture) -> None:
    run("sample", "--quick")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["a", "12.5"] in lines
    assert ["b", "–"] in lines
    assert ["The", "claim", "holds", "here.", "It", "does."] in lines


@pytest.mark.usefixtures("claim")
def test_json_is_one_object_whatever_happens(capsys: pytest.CaptureFixture) -> None:
    run("sample", "--quick", "--budget", "0s", "--json")
    assert json.loads(capsys.readouterr().out)["status"] == "budget"
    run("sample", "--quick", "--json")
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["folder"]) == ("ended", "runs/sample-quick")
    assert result["tables"][0]["rows"][0] == ["a", 12.5]


@pytest.mark.usefixtures("claim")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "-1"], "--seed"),
        (["--data-dir", "nowhere"], "'nowhere' does not exist"),
        (["--out", "note"], "--out note is a file"),
    ],
)
def test_error_names_the_wrong_option(words: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    Path("note").write_text("a note")
    run("sample", *words, code=2)
    assert message in capsys.readouterr().err


def test_error_without_a_name_says_where_names_are_listed(capsys: pytest.CaptureFixture) -> None:
    run(code=2)
    assert "torchcaps reproduce --list" in capsys.readouterr().err


def number_of_the_seed(study: Study) -> None:
    study.add_number("error", 10.0 + study.seed)
    study.add_table("Rows", ["name", "error (%)"], [["a", 10.0 + study.seed]], caption="A caption.")


SEEDED = Claim(
    "sample",
    "a claim",
    "a paper",
    "large data",
    "small data",
    20,
    number_of_the_seed,
    judge=lambda numbers: (numbers["error"] < 12, f"The error is {numbers['error']:.1f} %."),
)


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment without training, alone in the list."""
    monkeypatch.setattr(listing, "find_claim", lambda name: SEEDED)
    monkeypatch.setattr(listing, "list_claims", lambda: [SEEDED])


@pytest.mark.usefixtures("seeded")
def test_several_seeds_are_printed_with_their_deviation(capsys: pytest.CaptureFixture) -> None:
    run("sample", "--quick", "--seeds", "3")
    printed = capsys.readouterr().out
    assert "sample, seed 2" in printed
    assert ["a", "11.0", "±", "1.0"] in [line.split() for line in printed.splitlines()]
    assert "The claim holds here. The error is 11.0 ± 1.0 %." in printed
    assert Path("runs/sample-seeds-quick/seed-2/result.json").is_file()


@pytest.mark.usefixtures("seeded")
def test_record_runs_three_seeds_and_writes_a_file(capsys: pytest.CaptureFixture) -> None:
    Path("CLAIMS.md").write_text("# Claims\n")
    run("sample", "--record")
    assert "recorded in claims/sample.json" in capsys.readouterr().out
    assert json.loads(Path("claims/sample.json").read_text())["seeds"] == [0, 1, 2]


@pytest.mark.usefixtures("seeded")
def test_single_seeds_on_record_are_joined_without_running_them_again(capsys: pytest.CaptureFixture) -> None:
    Path("CLAIMS.md").write_text("# Claims\n")
    for seed in (2, 0, 1):
        run("sample", "--seed", str(seed), "--record")
        assert f"seed {seed} is on record; torchcaps reproduce sample --record" in capsys.readouterr().out
    assert not Path("claims/sample.json").exists()
    run("sample", "--record")
    assert capsys.readouterr().out.count("on record") == 3
    assert json.loads(Path("claims/sample.json").read_text())["numbers"]["error"]["values"] == [10, 11, 12]


@pytest.mark.usefixtures("seeded")
def test_all_runs_every_experiment_and_skips_what_is_recorded(capsys: pytest.CaptureFixture) -> None:
    Path("CLAIMS.md").write_text("# Claims\n")
    run("--all", "--record", "--budget", "0s")
    assert "left: sample\nTo continue: torchcaps reproduce --all --record --resume" in capsys.readouterr().out
    run("--all", "--record", "--resume")
    assert "ended: sample" in capsys.readouterr().out
    run("--all", "--record", "--resume")
    assert "skipped, finished before: sample" in capsys.readouterr().out
    run("--all", "--record", "--resume", "--json")
    assert json.loads(capsys.readouterr().out)["skipped"] == ["sample"]


def test_all_ends_with_an_error_if_one_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fails(study: Study) -> None:
        raise RuntimeError("no such data")

    monkeypatch.setattr(listing, "list_claims", lambda: [replace(SEEDED, run=fails)])
    run("--all", code=1)
    assert "failed: sample: RuntimeError: no such data" in capsys.readouterr().out


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sample", "--all"], "not both"),
        (["sample", "--resume"], "--resume goes with --all"),
        (["sample", "--seeds", "3", "--seed", "1"], "--seed runs one seed"),
        (["sample", "--seeds", "0"], "--seeds must be 1 or more"),
        (["sample", "--record", "--quick"], "the full form"),
        (["sample", "--record", "--quick", "--seed", "1"], "the full form"),
        (["--all", "--seed", "0"], "--seed runs one seed"),
        (["sample", "--record", "--seeds", "2"], "at least 3 seeds"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    Path("CLAIMS.md").write_text("# Claims\n")
    run(*words, code=2)
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.usefixtures("seeded")
def test_record_needs_a_checkout(capsys: pytest.CaptureFixture) -> None:
    run("sample", "--record", code=2)
    assert "no CLAIMS.md here" in capsys.readouterr().err
