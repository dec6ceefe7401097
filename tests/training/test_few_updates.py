"""Small data sets get small batches, and a run that would hardly learn says so."""

import logging
from pathlib import Path

import pytest
from torch import nn

from support.tiny_runs import tiny_recipe
from torchcaps.data import load
from torchcaps.training import Recipe, fit, train
from torchcaps.training.few_updates import notice_few_updates
from torchcaps.training.recipe.defaults import default_batch_size
from torchcaps.training.recipe.files import list_recipes, load_recipe
from torchcaps.training.recipe.schema import TrainingPart


@pytest.mark.parametrize("images", [8, 47, 48, 63, 64, 160, 500, 1000, 1023])
def test_an_epoch_of_few_images_has_several_updates(images: int) -> None:
    size = default_batch_size(images)
    assert size == 8 or images / size >= 8
    assert size == 8 or images / (2 * size) < 8


@pytest.mark.parametrize("images", [1024, 1442, 60_000])
def test_other_data_sets_keep_their_batches(images: int) -> None:
    assert default_batch_size(images) == 128


@pytest.mark.parametrize("name", sorted(list_recipes()))
def test_published_recipes_name_their_batch_size(name: str) -> None:
    assert load_recipe(name).training.batch_size


def test_a_run_records_the_batch_size_that_it_chose(tmp_path: Path) -> None:
    table = tiny_recipe("data.limit=48", "training.epochs=1").to_table()
    del table["training"]["batch_size"]
    result = train(Recipe.from_table(table), tmp_path / "recipe")
    assert (result["step"], result["recipe"]["training"]["batch_size"]) == (6, 8)
    assert Recipe.from_file(tmp_path / "recipe" / "recipe.toml").training.batch_size == 8
    # Left out again, it is chosen again and fits the run.
    table["training"]["epochs"] = 2
    assert train(Recipe.from_table(table), tmp_path / "recipe", resume=True)["step"] == 12

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    options = {"recipe": {"data": {"limit": 160}}, "epochs": 1}
    assert fit(model, load("digits"), out=tmp_path / "fit", **options)["step"] == 10
    assert fit(model, load("digits"), out=tmp_path / "own", batch_size=80, **options)["step"] == 2


@pytest.mark.parametrize(
    ("epochs", "batches", "says"),
    [
        (10, 1, "updated 10 times only (10 epochs of 1 batch of 128)"),
        (1, 1, "updated 1 time only (1 epoch of 1 batch of 128)"),
        (7, 7, "updated 49 times only (7 epochs of 7 batches of 128)"),
        (10, 6, None),
    ],
)
def test_a_run_with_few_updates_says_so(
    epochs: int, batches: int, says: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    notice_few_updates(TrainingPart(batch_size=128, epochs=epochs), batches)
    assert len(caplog.messages) == bool(says)
    if says:
        assert says in caplog.messages[0]
        assert "training.epochs" in caplog.messages[0]
        assert "training.batch_size" in caplog.messages[0]


def test_training_asks_whether_the_updates_are_few(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "torchcaps"):
        train(tiny_recipe("training.epochs=1"), tmp_path)
    assert any("updated 6 times only" in message for message in caplog.messages)
