import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps.data.formats.matrix import write_matrix
from torchcaps.training import default_recipe, load_recipe

Run = Callable[..., None]
TINY = ["--set", "model.options.stages=[[4], [4]]", "--epochs", "1"]
DIVERGING = ["--set", "optimizer.lr=1e30", "--set", "optimizer.name=sgd"]


def test_train_then_resume_the_newest(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("train", "--model", "shared_capsnet", "--data", "digits", *TINY)
    output = capsys.readouterr().out
    assert "test: accuracy " in output
    assert "two_digits: accuracy " in output
    assert "images/s" in output
    run("train", "--resume", "--epochs", "2")
    lines = Path("runs/digits-shared_capsnet/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]


def test_a_dry_run_prints_the_recipe_and_trains_nothing(run: Run, capsys: pytest.CaptureFixture) -> None:
    words = ["train", "--model", "shared_capsnet", "--data", "digits", "--epochs", "3", "--dry-run"]
    run(*words)
    Path("mine.toml").write_text(capsys.readouterr().out)
    recipe = load_recipe("mine.toml")
    assert recipe == default_recipe("shared_capsnet", "digits").override(["training.epochs=3"])
    run(*words, "--json")
    assert json.loads(capsys.readouterr().out) == recipe.to_table()
    assert not Path("runs").exists()


def test_a_second_run_gets_its_own_folder(run: Run) -> None:
    for _ in range(2):
        run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, "--budget", "0s")
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "digits-pooled_cnn",
        "digits-pooled_cnn-2",
    ]


def test_train_on_a_folder_of_photographs(run: Run, tmp_path: Path) -> None:
    for name in ("red", "blue"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            image = Image.new("RGB", (30 + number, 40), name)
            image.save(tmp_path / "photos" / name / f"{number}.jpg")
    run("train", "--model", "pooled_cnn", "--data", f"folder:{tmp_path / 'photos'}", *TINY, "--out", "mine")
    run("predict", tmp_path / "photos" / "red" / "0.jpg", "--run", "mine")


def test_train_on_norb_files_in_a_data_dir(run: Run, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for stem in ("smallnorb-5x46789x9x18x6x2x96x96-training", "smallnorb-5x01235x9x18x6x2x96x96-testing"):
        pixels = generator.integers(0, 256, (10, 2, 40, 40), dtype=np.uint8)
        write_matrix(tmp_path / f"{stem}-dat.mat", pixels)
        write_matrix(tmp_path / f"{stem}-cat.mat", np.arange(10, dtype=np.int32) % 5)
        write_matrix(tmp_path / f"{stem}-info.mat", np.zeros((10, 4), dtype=np.int32))
    words = ["--data", "smallnorb", "--data-dir", tmp_path, "--epochs", "1", "--out", "norb"]
    run("train", "--model", "matrix_capsnet_small", *words, "--set", "model.options.types=[2, 2, 2]")
    result = json.loads(Path("norb/result.json").read_text())
    assert result["metrics"]["test"]["count"] == 10
    run("train", "--resume", "--out", "norb", "--epochs", "2")


def test_a_live_bar_is_removed_when_a_run_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchcaps.cli import progress

    callback = progress.LiveProgress()
    callback.interval = 0.0
    monkeypatch.setattr(progress, "make_progress", lambda: callback)
    run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, *DIVERGING, code=1)
    assert callback.bar is not None
    assert not callback.bar.live.is_started
    assert "images/s" in callback.bar.tasks[0].fields["text"]


def test_an_interrupted_run_exits_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchcaps.cli import progress
    from torchcaps.training.callbacks import Callback

    class Interrupt(Callback):
        def on_step_end(self, position: object, totals: torch.Tensor) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(progress, "make_progress", Interrupt)
    run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, "--out", "mine", code=130)
    assert Path("mine/state.safetensors").is_file()


def test_a_run_that_diverges_fails(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("train", "--model", "pooled_cnn", "--data", "digits", *TINY, *DIVERGING, code=1)
    assert "not finite" in capsys.readouterr().err
