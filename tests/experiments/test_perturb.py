import json
from pathlib import Path

import pytest
import torch

from torchcaps import create_model
from torchcaps.capsules import Capsules
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.perturb import DYNAMIC, UNIFORM, judge, load_networks
from torchcaps.experiments.perturb.effects import (
    DIMENSIONS,
    PROPERTIES,
    RANDOM,
    STEPS,
    make_directions,
    measure_effects,
    property_changes,
    reconstruct_moved,
    shape_properties,
)
from torchcaps.models import Model


def blob(height: int = 24, width: int = 24) -> torch.Tensor:
    image = torch.zeros(1, height, width)
    image[0, 8:15, 9:13] = torch.rand(7, 4) + 0.1
    return image


def test_moving_an_image_changes_only_its_position() -> None:
    image = blob()
    still, shifted = shape_properties(image), shape_properties(image.roll((2, -3), (1, 2)))
    expected = torch.tensor([[0.0, -3.0, 2.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(shifted - still, expected, atol=1e-4, rtol=0)


def test_darker_image_has_the_same_form() -> None:
    image = blob()
    still, dark = shape_properties(image), shape_properties(image / 2)
    torch.testing.assert_close(dark[:, 1:], still[:, 1:])
    torch.testing.assert_close(dark[:, 0], still[:, 0] / 2)


@pytest.mark.parametrize("slope", [-1, 0, 1])
def test_slant_is_the_shear_of_a_line(slope: int) -> None:
    image = torch.zeros(1, 21, 21)
    for row in range(5, 16):
        image[0, row, 10 - slope * (row - 10)] = 1
    slant = float(shape_properties(image)[0, PROPERTIES.index("slant")])
    assert slant == pytest.approx(slope, abs=1e-5)


def test_empty_image_has_only_zeros() -> None:
    assert not shape_properties(torch.zeros(2, 8, 8)).any()


def test_directions_are_orthonormal_and_differ() -> None:
    bases = list(make_directions(16, seed=3).values())
    for basis in bases:
        torch.testing.assert_close(basis @ basis.T, torch.eye(16), atol=1e-5, rtol=0)
    assert not torch.allclose(bases[0], bases[1], atol=0.1)


class PoseAsPixels(Model):
    """Returns the chosen pose as an image: four numbers as four pixels."""

    def __init__(self) -> None:
        super().__init__(num_classes=3, in_channels=1, image_size=2)

    def reconstruct(self, capsules: Capsules, target: torch.Tensor) -> torch.Tensor:
        return capsules.pose[torch.arange(len(target)), target].view(-1, 1, 2, 2)


def test_only_the_chosen_capsule_is_moved() -> None:
    pose, labels = torch.rand(2, 3, 4), torch.tensor([1, 2])
    directions = torch.eye(4)[:2]
    images = reconstruct_moved(PoseAsPixels(), Capsules(pose, torch.ones(2, 3)), labels, directions)
    assert images.shape == (2, 2, len(STEPS), 2, 2)
    for sample, label in enumerate(labels):
        for which, direction in enumerate(directions):
            for number, step in enumerate(STEPS):
                expected = pose[sample, label] + step * direction
                torch.testing.assert_close(images[sample, which, number].flatten(), expected)


def images_that_fade_and_move() -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes of four digits; one direction makes them brighter, the other moves them."""
    base = torch.stack([blob()[0] * scale for scale in (0.7, 0.8, 0.9, 1.0)] * 2)
    base = torch.stack([each.roll(number % 3, 1) for number, each in enumerate(base)])
    fade = torch.stack([base * (0.5 + 0.05 * step) for step in range(11)], dim=1)
    move = torch.stack([base.roll(step - 5, 2) for step in range(11)], dim=1)
    return torch.stack([fade, move], dim=1), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])


def test_direction_with_one_effect_is_consistent_and_concentrated() -> None:
    images, labels = images_that_fade_and_move()
    changes = property_changes(images, labels)
    y_position, brightness = PROPERTIES.index("y position"), PROPERTIES.index("brightness")
    assert (changes[:, 0].abs().argmax(1) == brightness).all()
    assert (changes[:, 1].abs().argmax(1) == PROPERTIES.index("x position")).all()
    assert changes[:, 1, y_position].abs().max() < 1e-3
    effects = measure_effects(images, labels)
    assert effects["concentration"] == pytest.approx(100, abs=0.1)
    assert effects["consistency"] > 90


def test_shuffled_steps_are_not_straight() -> None:
    images, labels = images_that_fade_and_move()
    assert measure_effects(images[:, :1], labels)["straightness"] == pytest.approx(100, abs=0.01)
    shuffled = images[:, :1, [0, 9, 2, 7, 4, 5, 6, 3, 8, 1, 10]]
    assert measure_effects(shuffled, labels)["straightness"] < 50


def test_opposite_changes_are_not_consistent() -> None:
    images, labels = images_that_fade_and_move()
    mixed = images[:, :1].clone()
    mixed[::2] = mixed[::2].flip(2)
    assert measure_effects(mixed, labels)["consistency"] < 10


def test_moving_changes_the_images_of_a_real_decoder() -> None:
    model = create_model("capsnet_small", image_size=24, channels=4, types=2, decoder=(8,)).eval()
    images = reconstruct_moved(
        model, Capsules(torch.randn(3, 10, 16), torch.ones(3, 10)), torch.arange(3), torch.eye(16)
    )
    assert images.shape == (3, 16, 11, 24, 24)
    assert float(images.std(2).min(dim=1).values.max()) > 0


@pytest.mark.parametrize(
    ("own", "random", "holds"),
    [
        ({}, {}, True),
        ({}, {"concentration": 55.0}, False),  # any direction of the pose does the same
        ({"straightness": 40.0}, {}, False),
        ({"consistency": 40.0}, {}, False),
        ({"smallest": 0.5}, {}, False),
    ],
)
def test_claim_needs_more_than_random_directions(
    own: dict[str, float], random: dict[str, float], holds: bool
) -> None:
    base = {"straightness": 90.0, "consistency": 80.0, "smallest": 3.0, "concentration": 60.0}
    numbers = {f"{DYNAMIC}.{DIMENSIONS}.{key}": value for key, value in (base | own).items()}
    other = base | {"concentration": 40.0} | random
    numbers |= {f"{DYNAMIC}.{RANDOM}.{key}": value for key, value in other.items()}
    assert judge(numbers)[0] is holds


def test_both_networks_are_trained_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Study, "train", lambda study, name, recipe: recipe)
    recipes = load_networks(Study(tmp_path, quick=False))
    assert recipes[UNIFORM] == recipes[DYNAMIC].override(['model.options.routing="uniform"'])
    assert recipes[DYNAMIC].data.val_fraction > 0


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("perturb"), tmp_path, quick=True)
    assert result["status"] == "ended"
    assert result["verdicts"][0]["holds"] is not False
    numbers = result["numbers"]
    assert numbers["dynamic routing.dimensions.smallest"] > 1
    assert numbers["dynamic routing.error"] < 5
    assert json.loads((tmp_path / "result.json").read_text())["numbers"] == numbers
    figures = [*(f"digit_{digit}" for digit in range(10)), "all_digits"]
    for name in (*(f"{each}.{kind}" for each in figures for kind in ("png", "svg")), "report.html"):
        assert (tmp_path / name).stat().st_size > 1000
