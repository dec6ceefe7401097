import math
from pathlib import Path

import pytest
import torch

from torchcaps import create_model
from torchcaps.data import load
from torchcaps.experiments.equivariance import DECODED, FEW, POOLED
from torchcaps.experiments.equivariance.changes import (
    CHANGES,
    Seen,
    changed,
    differences,
    measure,
    predictability,
    seen,
)
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim


def blot() -> torch.Tensor:
    image = torch.zeros(1, 1, 24, 24, dtype=torch.uint8)
    image[0, 0, 10:13, 14] = 200
    return image


def test_no_change_gives_the_image_back() -> None:
    images = load("digits", "test", size=24).images[:5]
    assert torch.equal(changed(images, torch.zeros(5, 4)), images.float() / 255)


def test_changes_are_what_they_are_called() -> None:
    image = blot().float() / 255
    across = changed(blot(), torch.tensor([[2.0, 0.0, 0.0, 0.0]]))
    assert torch.equal(across, image.roll(2, 3))
    down = changed(blot(), torch.tensor([[0.0, 2.0, 0.0, 0.0]]))
    assert torch.equal(down, image.roll(2, 2))
    half = changed(blot(), torch.tensor([[0.0, 0.0, math.pi, 0.0]]))
    torch.testing.assert_close(half, image.flip(2, 3), atol=0.01, rtol=0)
    twice = changed(
        load("digits", "test", size=24).images[:1], torch.tensor([[0.0, 0.0, 0.0, math.log(0.5)]])
    )
    assert not twice[0, 0, :5].any()  # half as large, it leaves the borders


def test_differences_are_shares() -> None:
    before = Seen(torch.tensor([0.5, 1.0]), torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    after = Seen(torch.tensor([0.4, 1.0]), torch.tensor([[3.0, 4.0], [2.0, 2.0]]))
    assert differences(before, after) == pytest.approx((10.0, 50.0))


def features_that_follow(noise: float) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Changes of 6 features that are linear in 4 values, by another matrix for each of two classes."""
    maps = torch.randn(2, 4, 6)
    made = []
    for count in (400, 100):
        values, labels = torch.rand(count, 4) - 0.5, torch.arange(count) % 2
        features = torch.einsum("nk,nkd->nd", values, maps[labels]) + noise * torch.randn(count, 6)
        made.append((features, values, labels))
    return made


def test_linear_changes_are_told_perfectly_and_noise_not_at_all() -> None:
    assert predictability(*features_that_follow(0.0), components=None) == pytest.approx([1.0] * 4, abs=1e-3)
    fitted, held_out = features_that_follow(0.0)
    unrelated = [(torch.randn_like(features), *rest) for features, *rest in (fitted, held_out)]
    assert max(predictability(*unrelated, components=None)) < 0.1


def test_too_few_components_tell_less() -> None:
    made = features_that_follow(0.0)
    few = predictability(*made, components=2)
    assert sum(few) / 4 < 0.9 < sum(predictability(*made, components=4)) / 4


@pytest.mark.parametrize(
    ("name", "numbers"), [("capsnet_small", 16), ("shared_capsnet", 16), ("pooled_cnn", 128)]
)
def test_seen_is_the_true_class(name: str, numbers: int) -> None:
    model = create_model(name, image_size=24).eval()
    images, labels = torch.rand(3, 1, 24, 24), torch.tensor([7, 0, 7])
    found = seen(model, images, labels)
    output = model(images)
    assert found.features.shape == (3, numbers)
    torch.testing.assert_close(found.score, output.scores[torch.arange(3), labels])
    if output.capsules is not None:
        torch.testing.assert_close(found.features[0], output.capsules.pose[0, 7])


def test_pixels_can_be_measured_without_a_network(tmp_path: Path) -> None:
    train = load("digits", "train", size=24).select(torch.arange(60))
    test = load("digits", "test", size=24).select(torch.arange(30))
    found = measure(Study(tmp_path, quick=True), None, train, test, components=4)
    assert found["error"] is None
    assert found["score"] is None
    assert set(CHANGES) <= set(found)


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("equivariance"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert numbers[f"{DECODED}.score"] < numbers[f"{DECODED}.features"]
    stays = numbers[f"{DECODED}.score"] < numbers[f"{DECODED}.features"] / 3
    assert result["verdicts"][0]["holds"] is stays
    assert numbers[f"{DECODED}.mean"] > 0.3
    assert {f"{FEW}.mean", f"{POOLED}.mean"} <= set(numbers)
    for name in ("curves.png", "curves.svg", "predictability.png", "predictability.svg", "report.html"):
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "result.json").is_file()
