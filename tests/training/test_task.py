"""Everything that a recipe names is checked before the first step."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from support.tiny_runs import tiny_recipe
from torchcaps.data import dataset_info, load
from torchcaps.errors import DataError
from torchcaps.models import create_model, register_model
from torchcaps.models.registry import MODELS
from torchcaps.training import Callback, load_weights, train
from torchcaps.training.callbacks import Stopper
from torchcaps.training.checkpoint import Position
from torchcaps.training.engine import Engine
from torchcaps.training.recipe.defaults import default_recipe
from torchcaps.training.task import check_loss, recipe_task


@pytest.mark.parametrize(
    ("name", "data", "settings", "message"),
    [
        ("capsnet", "multimnist", ["loss.name=spread"], "one class per image"),
        ("pooled_cnn", "digits", ["loss.reconstruction=0.1"], "no decoder"),
        ("capsnet", "digits", ["data.preprocess.standardize=true"], "standardized"),
        ("capsnet", "two_digits", ["loss.reconstruction=0.1"], "objects alone"),
        ("capsnet", "multimnist", ["data.preprocess.translate=2"], "not augmented"),
    ],
)
def test_a_loss_that_does_not_fit_is_refused(name: str, data: str, settings: list, message: str) -> None:
    recipe = default_recipe(name, data).override(settings)
    images = load(data, "test", **({} if data == "digits" else {"source": "digits"}))
    decoder = {"decoder": (4,), "channels": 4, "types": 2} if name == "capsnet" else {}
    with pytest.raises(ValueError, match=message):
        check_loss(recipe, create_model(name, image_size=36, **decoder), images)


SHARED = (
    "model={name = 'shared_capsnet', options = {stages = [[4], [8]]}}",
    "data={name = 'digits', options = {size = 16}}",
)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["evaluation.extra_datasets=['two_digit']"], "extra_datasets: .*did you mean 'two_digits'"),
        (["evaluation.extra_datasets=['two_digits']"], r"extra_datasets: two_digits: .* \[2, 1, 8, 16\]"),
        (
            [*SHARED, "evaluation.extra_datasets=['boats']"],
            "boats has 2 classes, but the .* have 10",
        ),
        (["evaluation.crops=3"], r"evaluation\.crops = 3 needs data\.preprocess\.crop"),
        (["evaluation.crops=4", "data.preprocess={crop = 6}"], "at only 3 places per side"),
        (["data.preprocess={crop = 9}"], r"data\.preprocess does not fit images \[2, 1, 8, 8\]"),
        (["stop.target=98.0"], "write 98 % as 0.98"),
        (["stop.target=nan"], "stop.target must be a finite number"),
        (["data.limit=0"], r"data\.limit must be a whole number"),
        (["data.limit_per_class=1000"], "has only 143 images"),
        (["data.limit=10", "data.limit_per_class=1"], "exclude each other"),
        (["schedule.em_inverse_temperature_start=0.5"], "set both or neither"),
        (
            ["schedule={em_inverse_temperature_start = 0.5, em_inverse_temperature_steps = 9}"],
            "needs a model with EM routing",
        ),
        (["model.pretrained='mnist'"], "no weights of capsnet_cnn"),
        (["model.freeze=['heads']"], "there is no layer 'heads'"),
        (["model.freeze=3"], r"model\.freeze must be true or false"),
        (["model.freeze=['layers']"], "all parameters are frozen"),
    ],
)
def test_a_recipe_that_would_fail_later_is_refused(tmp_path: Path, settings: list, message: str) -> None:
    class NoStep(Callback):
        def on_step_end(self, position: Position, totals: Tensor) -> None:
            raise AssertionError("a step was made")

    with pytest.raises(ValueError, match=message):
        train(tiny_recipe(*settings), tmp_path / "run", callbacks=[NoStep()])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("data", ["mnist", "fashion_mnist", "cifar10", "smallnorb", "norb"])
def test_shapes_are_checked_before_anything_is_fetched(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object, **__: object) -> None:
        raise AssertionError("the files were read")

    monkeypatch.setattr("torchcaps.data.fetch.collection.Collection.read", fetch)
    recipe = default_recipe("capsnet", data).override(["data.preprocess={resize = 8}"])
    with pytest.raises(ValueError, match=rf"{data} has images of .*: image_size is too small for capsnet"):
        recipe_task(recipe)
    with pytest.raises(AssertionError, match="the files were read"):
        recipe_task(default_recipe("capsnet_small", data))


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_the_shape_known_in_advance_is_that_of_the_images(data: str) -> None:
    shape = dataset_info(data).image_shape
    assert shape is not None
    try:
        images = load(data, "test", limit=10)
    except DataError:
        pytest.skip(f"{data} is not on this machine")
    assert shape({}) == tuple(images.images.shape[1:])


def test_extra_data_sets_have_the_size_of_the_recipes(tmp_path: Path) -> None:
    names = ["two_digits", "multimnist"]
    task = recipe_task(tiny_recipe(*SHARED, f"evaluation.extra_datasets={names}"))
    assert task.extra["two_digits"].image_size == (16, 32)
    assert task.extra["multimnist"].image_size == (20, 20)


def test_scenes_with_more_objects_than_classes_train(tmp_path: Path) -> None:
    data = "data={name = 'boats', options = {kind = 'crowded', count = 40, size = 24}}"
    for loss in ("margin", "cross_entropy"):
        recipe = tiny_recipe(data, "model.options.hidden=[8, 8]", "training.epochs=1", f"loss.name={loss}")
        metrics = train(recipe, tmp_path / loss)["metrics"]["test"]
        assert metrics["accuracy"] > 0


FINE_TUNE = (
    "model={name = 'shared_capsnet', pretrained = 'mnist', freeze = ['features']}",
    "data={name = 'digits', options = {size = 28}, limit_per_class = 4}",
    "training={epochs = 1, batch_size = 20}",
)


def test_fine_tuning_starts_from_pretrained_weights(tmp_path: Path) -> None:
    result = train(tiny_recipe(*FINE_TUNE), tmp_path)
    assert (result["step"], result["metrics"]["test"]["count"]) == (2, 355)
    trained, _ = load_weights(tmp_path / "last.safetensors")
    source = create_model("shared_capsnet", pretrained="mnist")
    for (name, now), before in zip(trained.named_parameters(), source.parameters()):
        assert torch.equal(now, before) == name.startswith("features."), name


class Tempered(torch.nn.Module):
    """A stand-in for EM routing: its output and its slope depend on the factor."""

    def __init__(self, num_classes: int, in_channels: int, image_size: tuple[int, int]) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(image_size[0] * image_size[1], num_classes)
        self.inverse_temperature_factor = 1.0
        self.used: dict[bool, list[float]] = {True: [], False: []}

    def forward(self, images: Tensor) -> Tensor:
        self.used[self.training].append(self.inverse_temperature_factor)
        return self.linear(images.flatten(1)) * self.inverse_temperature_factor


def test_the_inverse_temperature_rises_in_training_and_is_full_in_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))
    register_model(Tempered)
    recipe = tiny_recipe(
        "model={name = 'Tempered'}",
        "schedule={em_inverse_temperature_start = 0.2, em_inverse_temperature_steps = 8}",
        "training.epochs=2",
    )
    task = recipe_task(recipe)
    Engine(task, tmp_path).train(Stopper())
    expected = [0.2 + 0.1 * step for step in range(8)] + [1.0] * 4
    assert task.model.used[True] == pytest.approx(expected)
    assert set(task.model.used[False]) == {1.0}
    with pytest.raises(ValueError, match="compiled again at every step"):
        recipe_task(recipe.override(["training.compile=true"]))
