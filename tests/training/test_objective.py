import pytest
import torch

from torchcaps.losses import margin_loss, reconstruction_loss, spread_loss
from torchcaps.models import create_model
from torchcaps.training.objective import Objective
from torchcaps.training.recipe import LossPart


@pytest.fixture
def model() -> torch.nn.Module:
    return create_model("capsnet", image_size=20, channels=4, types=2, decoder=(8,))


def test_the_capsule_of_the_label_is_reconstructed(model: torch.nn.Module) -> None:
    images, labels = torch.rand(3, 1, 20, 20), torch.tensor([1, 2, 3])
    output = model(images, labels)
    expected = margin_loss(output.scores, labels) + reconstruction_loss(
        output.reconstruction, images, weight=0.1
    )
    got = Objective(model, LossPart(reconstruction=0.1))(images, labels)
    torch.testing.assert_close(got.loss, expected)


def test_each_of_two_objects_is_reconstructed_from_its_own_capsule(model: torch.nn.Module) -> None:
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


def test_repeated_classes_are_present_once(model: torch.nn.Module) -> None:
    images, labels = torch.rand(2, 1, 20, 20), torch.tensor([[1, 1, 3], [4, 4, 4]])
    present = torch.zeros(2, 10)
    present[0, [1, 3]] = present[1, 4] = 1
    expected = margin_loss(model(images).scores, present)
    torch.testing.assert_close(Objective(model, LossPart())(images, labels).loss, expected)
