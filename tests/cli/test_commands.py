"""Each command, from its words to its exit code."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps.cli import main
from torchcaps.data.formats.matrix import write_matrix

TINY = ["--set", "model.options.stages=[[4], [4]]", "--epochs", "1"]


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(*words: str | Path, code: int = 0) -> None:
    """Run a command and check its exit code."""
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    assert (left.value.code or 0) == code


def test_train_then_resume_the_newest(capsys: pytest.CaptureFixture) -> None:
    run("train", "--model", "shared_capsnet", "--data", "digits", *TINY)
    said = capsys.readouterr().out
    assert "test: " in said
    assert "two_digits: " in said
    assert "images/s" in said
    run("train", "--resume", "--epochs", "2")
    lines = Path("runs/digits-shared_capsnet/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]


def test_a_second_run_gets_its_own_folder() -> None:
    for _ in range(2):
        run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, "--budget", "0s")
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "digits-pooled_cnn",
        "digits-pooled_cnn-2",
    ]


def test_train_on_a_folder_of_photographs(tmp_path: Path) -> None:
    for name in ("red", "blue"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            image = Image.new("RGB", (30 + number, 40), name)
            image.save(tmp_path / "photos" / name / f"{number}.jpg")
    run("train", "--model", "pooled_cnn", "--data", f"folder:{tmp_path / 'photos'}", *TINY, "--out", "mine")
    run("predict", tmp_path / "photos" / "red" / "0.jpg", "--run", "mine")


def test_train_on_norb_files_made_elsewhere(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    for stem in ("smallnorb-5x46789x9x18x6x2x96x96-training", "smallnorb-5x01235x9x18x6x2x96x96-testing"):
        write_matrix(tmp_path / f"{stem}-dat.mat", dice.integers(0, 256, (10, 2, 40, 40), dtype=np.uint8))
        write_matrix(tmp_path / f"{stem}-cat.mat", np.arange(10, dtype=np.int32) % 5)
        write_matrix(tmp_path / f"{stem}-info.mat", np.zeros((10, 4), dtype=np.int32))
    words = ["--data", "smallnorb", "--data-dir", tmp_path, "--epochs", "1", "--out", "norb"]
    run("train", "--model", "matrix_capsnet_small", *words, "--set", "model.options.types=[2, 2, 2]")
    result = json.loads(Path("norb/result.json").read_text())
    assert result["metrics"]["test"]["count"] == 10
    run("train", "--resume", "--out", "norb", "--epochs", "2")


def test_a_live_terminal_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is drawn while training, and gone when a run fails."""
    from torchcaps.cli import progress

    watcher = progress.LiveProgress()
    watcher.every = 0.0
    monkeypatch.setattr(progress, "make_progress", lambda: watcher)
    rate = ["--set", "optimizer.lr=1e30", "--set", "optimizer.name=sgd"]
    run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, *rate, code=1)
    assert watcher.bar is not None
    assert not watcher.bar.live.is_started
    assert "images/s" in watcher.bar.tasks[0].fields["text"]


def test_an_interrupted_run_says_so_to_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchcaps.cli import progress
    from torchcaps.training.callbacks import Callback

    class Impatient(Callback):
        def step(self, position: object, tally: torch.Tensor) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(progress, "make_progress", Impatient)
    run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, "--out", "mine", code=130)
    assert Path("mine/state.safetensors").is_file()


def test_a_run_that_diverges_fails(capsys: pytest.CaptureFixture) -> None:
    rate = ["--set", "optimizer.lr=1e30", "--set", "optimizer.name=sgd"]
    run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, *rate, code=1)
    assert "not finite" in capsys.readouterr().err


def test_evaluate_tells_and_draws(trained: Path, capsys: pytest.CaptureFixture) -> None:
    run("evaluate", trained, "--figure", "confusion.png")
    said = capsys.readouterr().out
    assert "accuracy" in said
    assert "precision" in said
    assert Image.open("confusion.png").size[0] > 400


def test_evaluate_gives_json_to_scripts(trained: Path, capsys: pytest.CaptureFixture) -> None:
    run("evaluate", trained, "--json")
    numbers = json.loads(capsys.readouterr().out)
    assert (
        numbers["accuracy"]
        == json.loads((trained / "result.json").read_text())["metrics"]["test"]["accuracy"]
    )
    run("evaluate", trained, "--data", "two_digits", "--json")
    assert json.loads(capsys.readouterr().out)["count"] == 355


def test_predict_reads_any_image(trained: Path, capsys: pytest.CaptureFixture) -> None:
    pixels = torch.randint(256, (60, 45, 3), dtype=torch.uint8).numpy()
    Image.fromarray(pixels).save("photo.png")
    run("predict", "photo.png", "--run", trained)
    assert capsys.readouterr().out.startswith("photo.png: ")
    run("predict", "photo.png", "--run", trained, "--invert", "--json")
    assert sum(1 for _ in json.loads(capsys.readouterr().out)["scores"]) == 10


def test_data_lists_and_shows(capsys: pytest.CaptureFixture) -> None:
    run("data")
    assert "smallnorb" in capsys.readouterr().out
    run("data", "digits", "--set", "size=16", "--out", "sheet.png")
    assert "1×16×16" in capsys.readouterr().out
    assert Path("sheet.png").is_file()


def test_models_are_counted(capsys: pytest.CaptureFixture) -> None:
    run("models", "--classes", "5", "--channels", "2", "--size", "32")
    lines = capsys.readouterr().out.splitlines()
    small, *_ = [line.split() for line in lines if line.startswith("matrix_capsnet_small")]
    assert small[1] == "68,618"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "train"),
        (["train", "--model", "capsnett", "--data", "digits"], "did you mean 'capsnet'"),
        (["train", "--model", "capsnet", "--data", "digit"], "did you mean 'digits'"),
        (["train", "mnist-capsnt"], "did you mean 'mnist-capsnet'"),
        (["train", "mnist-capsnet", "--set", "training.epoch=1"], "did you mean 'training.epochs'"),
        (["train", "mnist-capsnet", "--sett", "x"], "--set"),
        (["train"], "say what to train"),
        (["train", "--resume"], "no run"),
        (["train", "--model", "capsnet", "--data", "digits", "--budget", "soon"], "90m"),
        (["data", "mnits"], "did you mean 'mnist'"),
        (["data", "digits", "--set", "sise=3"], "did you mean 'size'"),
        (["predict", "x.png"], "no run"),
    ],
)
def test_a_wrong_word_is_told_the_right_one(
    words: list[str], said: str, capsys: pytest.CaptureFixture
) -> None:
    run(*words, code=2)
    streams = capsys.readouterr()
    assert said in streams.err
    assert "Traceback" not in streams.err


def test_missing_data_is_a_failure_not_a_usage_error(capsys: pytest.CaptureFixture) -> None:
    run("data", "folder:nowhere", code=1)
    assert "nowhere" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture) -> None:
    from torchcaps import __version__

    run("--version")
    assert capsys.readouterr().out == f"torchcaps {__version__}\n"
