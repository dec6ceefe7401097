import math
from pathlib import Path

import pytest
import torch

from torchcaps import create_model
from torchcaps.data import load
from torchcaps.experiments.equivariance import train_network
from torchcaps.experiments.equivariance.changes import (
    CHANGES,
    Response,
    change_images,
    mean_differences,
    measure,
    predict_changes,
    respond,
)
from torchcaps.experiments.equivariance.figures import COLORS
from torchcaps.experiments.equivariance.verdicts import (
    COMPONENTS,
    DECODED,
    DENSE,
    PIXELS,
    POOLED,
    SHARED,
    UNIFORM,
    Results,
    add_verdicts,
)
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim


def small_line() -> torch.Tensor:
    image = torch.zeros(1, 1, 24, 24, dtype=torch.uint8)
    image[0, 0, 10:13, 14] = 200
    return image


def test_no_change_returns_the_image() -> None:
    images = load("digits", "test", size=24).images[:5]
    assert torch.equal(change_images(images, torch.zeros(5, 4)), images.float() / 255)


def test_each_change_has_the_effect_of_its_name() -> None:
    image = small_line().float() / 255
    right = change_images(small_line(), torch.tensor([[2.0, 0.0, 0.0, 0.0]]))
    assert torch.equal(right, image.roll(2, 3))
    down = change_images(small_line(), torch.tensor([[0.0, 2.0, 0.0, 0.0]]))
    assert torch.equal(down, image.roll(2, 2))
    half = change_images(small_line(), torch.tensor([[0.0, 0.0, math.pi, 0.0]]))
    torch.testing.assert_close(half, image.flip(2, 3), atol=0.01, rtol=0)
    smaller = change_images(
        load("digits", "test", size=24).images[:1], torch.tensor([[0.0, 0.0, 0.0, math.log(0.5)]])
    )
    assert not smaller[0, 0, :5].any()  # at half the size the borders are empty


def test_differences_are_relative() -> None:
    before = Response(torch.tensor([0.5, 1.0]), torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    after = Response(torch.tensor([0.4, 1.0]), torch.tensor([[3.0, 4.0], [2.0, 2.0]]))
    assert mean_differences(before, after) == pytest.approx((10.0, 50.0))


def linear_features(noise: float) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Changes of 6 features that are linear in 4 values, with a different matrix for each of two classes."""
    maps = torch.randn(2, 4, 6)
    parts = []
    for count in (400, 100):
        values, labels = torch.rand(count, 4) - 0.5, torch.arange(count) % 2
        features = torch.einsum("nk,nkd->nd", values, maps[labels]) + noise * torch.randn(count, 6)
        parts.append((features, values, labels))
    return parts


def test_linear_features_predict_perfectly_and_noise_does_not() -> None:
    assert predict_changes(*linear_features(0.0), components=None) == pytest.approx([1.0] * 4, abs=1e-3)
    train, test = linear_features(0.0)
    unrelated = [(torch.randn_like(features), *rest) for features, *rest in (train, test)]
    assert max(predict_changes(*unrelated, components=None)) < 0.1


def test_too_few_components_predict_less() -> None:
    parts = linear_features(0.0)
    few = predict_changes(*parts, components=2)
    assert sum(few) / 4 < 0.9 < sum(predict_changes(*parts, components=4)) / 4


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("capsnet_small", 16), ("shared_capsnet", 16), ("pooled_cnn", 128), ("capsnet_cnn", 192)],
)
def test_response_is_that_of_the_true_class(name: str, numbers: int) -> None:
    model = create_model(name, image_size=24).eval()
    images, labels = torch.rand(3, 1, 24, 24), torch.tensor([7, 0, 7])
    response = respond(model, images, labels)
    output = model(images)
    assert response.features.shape == (3, numbers)
    torch.testing.assert_close(response.score, output.scores[torch.arange(3), labels])
    if output.capsules is not None:
        torch.testing.assert_close(response.features[0], output.capsules.pose[0, 7])


def test_pixels_need_no_network(tmp_path: Path) -> None:
    train = load("digits", "train", size=24).select(torch.arange(60))
    test = load("digits", "test", size=24).select(torch.arange(30))
    results = measure(Study(tmp_path, quick=True), None, train, test, components=4)
    assert results["error"] is None
    assert results["score"] is None
    assert set(CHANGES) <= set(results)


class Recorder(Study):
    """A study that keeps the recipes and trains nothing."""

    def train(self, name: str, recipe, **options):
        self.recipes[name] = recipe


def test_all_networks_are_trained_alike(tmp_path: Path) -> None:
    study = Recorder(tmp_path, quick=False)
    for name in COLORS:
        train_network(study, name)
    first = study.recipes[DECODED]
    assert first.data.val_fraction > 0
    for recipe in study.recipes.values():
        assert (recipe.data, recipe.training, recipe.schedule, recipe.evaluation) == (
            first.data,
            first.training,
            first.schedule,
            first.evaluation,
        )
    assert study.recipes[UNIFORM].model.options["routing"] == "uniform"


def example_results(**changes: dict[str, float]) -> Results:
    """Capsules whose poses predict best and whose lengths stay; `changes` by the name of a constant."""
    names = {"DECODED": DECODED, "POOLED": POOLED, "DENSE": DENSE}
    weak = {"error": 1.0, "score": 10.0, "features": 20.0, "mean": 0.5}
    results = {name: dict(weak) for name in (UNIFORM, SHARED, POOLED, DENSE, PIXELS, *COMPONENTS.values())}
    results[DECODED] = {"error": 1.0, "score": 2.0, "features": 20.0, "mean": 0.9}
    for name, values in changes.items():
        results[names[name]] |= values
    return results


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, [True, True, True]),
        ({"DENSE": {"score": 3.0}}, [False, True, True]),
        ({"DENSE": {"mean": 0.95}}, [True, None, True]),
        ({"POOLED": {"error": 2.5}}, [True, None, True]),
        ({"DECODED": {"mean": 0.51}}, [True, False, False]),
    ],
)
def test_verdicts_follow_the_numbers(
    tmp_path: Path, changes: dict[str, dict[str, float]], holds: list[bool | None]
) -> None:
    study = Study(tmp_path, quick=True)
    add_verdicts(study, example_results(**changes))
    assert [each["holds"] for each in study.results()["verdicts"]] == holds


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("equivariance"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert numbers[f"{DECODED}.score"] < numbers[f"{DECODED}.features"]
    small = numbers[f"{DECODED}.score"] < numbers[f"{DECODED}.features"] / 3
    assert result["verdicts"][0]["holds"] is small
    assert numbers[f"{DECODED}.mean"] > 0.3
    assert {f"{COMPONENTS[POOLED]}.mean", f"{POOLED}.mean", f"{DENSE}.mean"} <= set(numbers)
    for name in ("curves.png", "curves.svg", "predictability.png", "predictability.svg", "report.html"):
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "result.json").is_file()
