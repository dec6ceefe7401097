import pytest
import torch

from torchcaps.data import load
from torchcaps.losses import margin_loss, reconstruction_loss, spread_loss
from torchcaps.models import create_model
from torchcaps.training.objective import Objective
from torchcaps.training.recipe import LossPart
from torchcaps.training.recipe.defaults import default_recipe
from torchcaps.training.task import check_loss


@pytest.fixture
def model() -> torch.nn.Module:
    return create_model("capsnet", image_size=20, channels=4, types=2, decoder=(8,))


def test_one_label_draws_the_labels_capsule(model: torch.nn.Module) -> None:
    images, labels = torch.rand(3, 1, 20, 20), torch.tensor([1, 2, 3])
    output = model(images, labels)
    expected = margin_loss(output.scores, labels) + reconstruction_loss(
        output.reconstruction, images, weight=0.1
    )
    got = Objective(model, LossPart(reconstruction=0.1))(images, labels)
    torch.testing.assert_close(got.loss, expected)


def test_each_of_two_objects_is_drawn_from_its_own_capsule(model: torch.nn.Module) -> None:
    images, objects = torch.rand(3, 1, 20, 20), torch.rand(3, 2, 1, 20, 20)
    labels = torch.tensor([[1, 2], [3, 4], [5, 6]])
    output = model(images)
    expected = margin_loss(output.scores, torch.zeros(3, 10).scatter(1, labels, 1.0))
    for place in range(2):
        drawn = model.reconstruct(output.capsules, labels[:, place])
        expected = expected + reconstruction_loss(drawn, objects[:, place], weight=0.1)
    objective = Objective(model, LossPart(reconstruction=0.1))
    torch.testing.assert_close(objective(images, labels, 0, objects).loss, expected)
    swapped = objective(images, labels.flip(1), 0, objects.flip(1)).loss
    torch.testing.assert_close(swapped, expected)


def test_the_spread_margin_follows_the_step(model: torch.nn.Module) -> None:
    images, labels = torch.rand(3, 1, 20, 20), torch.tensor([1, 2, 3])
    objective = Objective(model, LossPart("spread", margin_steps=100))
    scores = model(images, labels).scores
    for step, margin in ((0, 0.2), (50, 0.55), (1000, 0.9)):
        expected = spread_loss(scores, labels, margin=margin)
        torch.testing.assert_close(objective(images, labels, step).loss, expected)


@pytest.mark.parametrize(
    ("name", "data", "settings", "said"),
    [
        ("capsnet", "multimnist", ["loss.name=spread"], "one class per image"),
        ("pooled_cnn", "digits", ["loss.reconstruction=0.1"], "no decoder"),
        ("capsnet", "digits", ["data.preprocess.standardize=true"], "standardized"),
        ("capsnet", "two_digits", ["loss.reconstruction=0.1"], "objects alone"),
        ("capsnet", "multimnist", ["data.preprocess.translate=2"], "not augmented"),
    ],
)
def test_losses_that_cannot_be_are_refused(name: str, data: str, settings: list, said: str) -> None:
    recipe = default_recipe(name, data).override(settings)
    images = load(data, "test", **({} if data == "digits" else {"source": "digits"}))
    decoder = {"decoder": (4,), "channels": 4, "types": 2} if name == "capsnet" else {}
    with pytest.raises(ValueError, match=said):
        check_loss(recipe, create_model(name, image_size=36, **decoder), images)
