import re
from pathlib import Path

import pytest

from support.tiny_runs import tiny_recipe
from torchcaps._files import digest
from torchcaps.training import RunError, train
from torchcaps.training.prediction import find_weights
from torchcaps.training.run import choose_folder, reported_model


@pytest.mark.parametrize("settings", [(), ("data.val_fraction=0.25",)])
def test_the_model_to_use_is_the_one_that_the_result_reports(tmp_path: Path, settings: tuple) -> None:
    # The learning rate is so high that the last model differs from the best one.
    result = train(tiny_recipe("optimizer.lr=0.05", *settings), tmp_path)
    assert (tmp_path / "best.safetensors").is_file()
    assert find_weights(tmp_path) == reported_model(tmp_path) == tmp_path / result["model"]
    assert digest(find_weights(tmp_path)) == result["sha256"]


def test_before_the_first_epoch_ends_there_is_only_the_last_model(tmp_path: Path) -> None:
    train(tiny_recipe("data.val_fraction=0.25"), tmp_path, budget=0.0)
    assert reported_model(tmp_path).name == "last.safetensors"
    with pytest.raises(RunError, match="no trained model yet"):
        reported_model(tmp_path / "tensorboard")


def test_a_free_folder_is_made_when_it_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [choose_folder(None, "digits").name for _ in range(3)]
    assert names == ["digits", "digits-2", "digits-3"]
    assert choose_folder(None, "digits", resume=True) == Path("runs/digits-3")
    assert choose_folder("elsewhere", "digits") == Path("elsewhere")


def test_a_run_without_a_folder_is_named_after_data_and_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = tiny_recipe("training.epochs=1")
    assert train(recipe)["run"] == "runs/digits-capsnet_cnn"
    assert train(recipe, name="mine")["run"] == "runs/mine"
    assert train(recipe)["run"] == "runs/digits-capsnet_cnn-2"
    assert train(recipe, resume=True)["run"] == "runs/digits-capsnet_cnn-2"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.batch_size=128", "training.batch_size was 256 and is now 128"),
        ("seed=1", "seed was 0 and is now 1"),
        ("model.options.hidden=[9, 9]", "model.options was"),
    ],
)
def test_what_the_state_depends_on_cannot_change(tmp_path: Path, setting: str, message: str) -> None:
    """Another batch size, for example, would skip images of the epoch."""
    train(tiny_recipe("training.epochs=1"), tmp_path)
    before = (tmp_path / "recipe.toml").read_text()
    with pytest.raises(ValueError, match=f"a resumed run keeps its recipe, but {re.escape(message)}"):
        train(tiny_recipe("training.epochs=2", setting), tmp_path, resume=True)
    assert (tmp_path / "recipe.toml").read_text() == before


def test_a_resumed_run_may_find_its_data_elsewhere(tmp_path: Path) -> None:
    train(tiny_recipe("training.epochs=1"), tmp_path / "run")
    moved = tiny_recipe("training.epochs=1", f"data.dir={str(tmp_path)!r}")
    assert train(moved, tmp_path / "run", resume=True)["status"] == "ended"


def test_a_run_is_resumed_by_name_in_its_newest_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        train(tiny_recipe("training.epochs=1"), name="mine")
    assert train(tiny_recipe("training.epochs=2"), name="mine", resume=True)["run"] == "runs/mine-2"
