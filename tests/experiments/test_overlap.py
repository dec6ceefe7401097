from pathlib import Path

import pytest
import torch

from torchcaps import create_model
from torchcaps.data import load
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.overlap import (
    CNNS,
    CONVOLUTIONAL,
    DYNAMIC,
    UNIFORM,
    add_verdicts,
    in_order_of,
    load_network,
    make_recipe,
    measure,
    parts_of,
    pixels_of,
    reconstruct_all_classes,
    reconstruction_error,
)
from torchcaps.models import CapsuleModel


def test_smaller_digits_have_a_smaller_canvas() -> None:
    pairs = load("multimnist", "test", source="digits", size=21)
    assert pairs.image_size == (27, 27)
    assert pairs.metadata["parts"].shape == (355, 2, 27, 27)
    assert load("multimnist", "test", source="digits").image_size == (36, 36)


def test_input_image_has_the_other_digit_as_error() -> None:
    parts = torch.zeros(1, 2, 6, 6)
    parts[0, 0, :3], parts[0, 1, 3:] = 1.0, 0.5  # they do not overlap
    both = parts.sum(1, keepdim=True).expand(-1, 2, -1, -1)
    torch.testing.assert_close(reconstruction_error(both, parts), torch.tensor([[0.25, 4.0]]))
    assert not reconstruction_error(parts, parts).any()


def test_predictions_are_ordered_as_the_true_digits() -> None:
    assert in_order_of([1, 8], [8, 3]) == [8, 1]
    assert in_order_of([8, 3], [8, 3]) == [8, 3]


def test_each_class_is_reconstructed_from_its_own_capsule() -> None:
    pairs = load("multimnist", "test", source="digits", size=18).select(torch.arange(4))
    model = create_model("capsnet_small", image_size=24, channels=4, types=2, decoder=(8,)).eval()
    reconstruction = reconstruct_all_classes(model, pairs)
    assert reconstruction.shape == (4, 10, 24, 24)
    for label in range(10):
        alone = model(pixels_of(pairs), torch.full((4,), label)).reconstruction
        torch.testing.assert_close(reconstruction[:, label : label + 1], alone)


class Perfect(CapsuleModel):
    """Reconstructs the digits of a few pairs exactly, and draws nothing for other classes."""

    def __init__(self, parts: torch.Tensor, labels: torch.Tensor) -> None:
        super().__init__(num_classes=10, in_channels=1, image_size=24)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.scores = torch.zeros(len(labels), 10).scatter(1, labels, 1.0)
        self.drawings = torch.zeros(len(labels), 10, *parts.shape[2:])
        for place, pair in enumerate(labels):
            self.drawings[place, pair] = parts[place]

    def forward(self, images: torch.Tensor, target: torch.Tensor | None = None) -> object:
        from torchcaps.capsules import Capsules
        from torchcaps.models import Output

        return Output(self.scores, self.scores, Capsules(self.scores[..., None], self.scores))

    def reconstruct(self, capsules: object, target: torch.Tensor) -> torch.Tensor:
        return self.drawings[torch.arange(len(target)), target][:, None]


def test_perfect_network_has_no_errors(tmp_path: Path) -> None:
    pairs = load("multimnist", "test", source="digits", size=18).select(torch.arange(6))
    model = Perfect(parts_of(pairs), pairs.labels)
    values = measure(Study(tmp_path, quick=True), "perfect", model, pairs)
    assert values == pytest.approx(
        {"error": 0.0, "reconstruction": 0.0, "present": 100.0, "absent": 0.0}, abs=1e-3
    )


def test_networks_have_about_as_many_parameters(tmp_path: Path) -> None:
    counts = {}

    class UntrainedStudy(Study):
        def train(self, name: str, recipe: object) -> object:  # type: ignore[override]
            options = recipe.model.options  # type: ignore[attr-defined]
            return create_model(recipe.model.name, image_size=24, **options)  # type: ignore[attr-defined]

    for name in (DYNAMIC, UNIFORM, CONVOLUTIONAL):
        model = load_network(UntrainedStudy(tmp_path, quick=True), name)
        counts[name] = sum(each.numel() for each in model.parameters())
    assert counts[DYNAMIC] == counts[UNIFORM]
    assert counts[CONVOLUTIONAL] == pytest.approx(counts[DYNAMIC], rel=0.05)


@pytest.mark.parametrize("best", CNNS)
@pytest.mark.parametrize(
    ("capsules", "cnn", "reconstruction", "holds"),
    [(8.0, 10.0, 30.0, True), (10.0, 10.1, 30.0, None), (12.0, 10.0, 30.0, False), (8.0, 10.0, 130.0, False)],
)
def test_verdict_requires_more_than_chance(
    tmp_path: Path, best: str, capsules: float, cnn: float, reconstruction: float, holds: bool | None
) -> None:
    study = Study(tmp_path, quick=False)
    routed = {"error": capsules, "reconstruction": reconstruction, "present": 90.0, "absent": 20.0}
    results = {DYNAMIC: routed, UNIFORM: {**routed, "error": 20.0}}
    results |= {name: {"error": cnn if name == best else 15.0} for name in CNNS}
    add_verdicts(study, results, 100.0, 40_000)
    assert [each["holds"] for each in study.results()["verdicts"]] == [holds, True, True]


@pytest.mark.parametrize("quick", [True, False])
def test_all_networks_see_as_many_pairs(tmp_path: Path, quick: bool) -> None:
    recipes = [make_recipe(Study(tmp_path, quick=quick), name) for name in (DYNAMIC, UNIFORM, *CNNS)]
    for recipe in recipes[1:]:
        assert (recipe.data, recipe.training) == (recipes[0].data, recipes[0].training)


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("overlap"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert numbers[f"{DYNAMIC}.error"] < numbers[f"{CONVOLUTIONAL}.error"]
    assert numbers[f"{DYNAMIC}.reconstruction"] < numbers["copy.reconstruction"]
    assert numbers[f"{DYNAMIC}.absent"] < numbers[f"{DYNAMIC}.present"]
    for name in (
        "pairs.png",
        "pairs.svg",
        "all_classes.png",
        "all_classes.svg",
        "report.html",
        "result.json",
    ):
        assert (tmp_path / name).stat().st_size > 1000
