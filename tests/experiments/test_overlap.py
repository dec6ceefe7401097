from pathlib import Path

import pytest
import torch

from torchcaps import create_model
from torchcaps.data import load
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.overlap import (
    CONVOLUTIONAL,
    DYNAMIC,
    UNIFORM,
    draw_each,
    drawing_error,
    give_verdicts,
    matched,
    measure,
    network,
    parts_of,
    pixels_of,
    test_pairs,
)
from torchcaps.models import CapsuleModel

test_pairs.__test__ = False  # type: ignore[attr-defined]


def test_smaller_pairs_keep_the_proportions() -> None:
    pairs = load("multimnist", "test", source="digits", size=21)
    assert pairs.image_size == (27, 27)
    assert pairs.metadata["parts"].shape == (355, 2, 27, 27)
    assert load("multimnist", "test", source="digits").image_size == (36, 36)


def test_the_image_itself_has_the_other_digit_as_error() -> None:
    parts = torch.zeros(1, 2, 6, 6)
    parts[0, 0, :3], parts[0, 1, 3:] = 1.0, 0.5  # nowhere over each other
    both = parts.sum(1, keepdim=True).expand(-1, 2, -1, -1)
    torch.testing.assert_close(drawing_error(both, parts), torch.tensor([[0.25, 4.0]]))
    assert not drawing_error(parts, parts).any()


def test_matched_keeps_a_digit_in_its_color() -> None:
    assert matched([1, 8], [8, 3]) == [8, 1]
    assert matched([8, 3], [8, 3]) == [8, 3]


def test_each_class_is_drawn_from_its_own_capsule() -> None:
    pairs = load("multimnist", "test", source="digits", size=18).select(torch.arange(4))
    model = create_model("capsnet_small", image_size=24, channels=4, types=2, decoder=(8,)).eval()
    drawn = draw_each(model, pairs)
    assert drawn.shape == (4, 10, 24, 24)
    for label in range(10):
        alone = model(pixels_of(pairs), torch.full((4,), label)).reconstruction
        torch.testing.assert_close(drawn[:, label : label + 1], alone)


class Perfect(CapsuleModel):
    """Knows the digits of a few pairs, and draws nothing for others."""

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


def test_a_perfect_network_measures_perfectly(tmp_path: Path) -> None:
    pairs = load("multimnist", "test", source="digits", size=18).select(torch.arange(6))
    model = Perfect(parts_of(pairs), pairs.labels)
    found = measure(Study(tmp_path, quick=True), "perfect", model, pairs)
    assert found == pytest.approx({"error": 0.0, "drawn": 0.0, "present": 100.0, "absent": 0.0}, abs=1e-3)


def test_networks_are_about_equally_heavy(tmp_path: Path) -> None:
    asked = {}

    class Asking(Study):
        def train(self, name: str, recipe: object) -> object:  # type: ignore[override]
            options = recipe.model.options  # type: ignore[attr-defined]
            return create_model(recipe.model.name, image_size=24, **options)  # type: ignore[attr-defined]

    for name in (DYNAMIC, UNIFORM, CONVOLUTIONAL):
        model = network(Asking(tmp_path, quick=True), name)
        asked[name] = sum(each.numel() for each in model.parameters())
    assert asked[DYNAMIC] == asked[UNIFORM]
    assert asked[CONVOLUTIONAL] == pytest.approx(asked[DYNAMIC], rel=0.05)


@pytest.mark.parametrize(
    ("capsules", "cnn", "drawn", "holds"),
    [(8.0, 10.0, 30.0, True), (10.0, 10.1, 30.0, None), (12.0, 10.0, 30.0, False), (8.0, 10.0, 130.0, False)],
)
def test_the_verdict_asks_for_more_than_chance(
    tmp_path: Path, capsules: float, cnn: float, drawn: float, holds: bool | None
) -> None:
    study = Study(tmp_path, quick=False)
    routed = {"error": capsules, "drawn": drawn, "present": 90.0, "absent": 20.0}
    found = {DYNAMIC: routed, UNIFORM: {**routed, "error": 20.0}, CONVOLUTIONAL: {"error": cnn}}
    give_verdicts(study, found, 100.0, 40_000)
    assert [each["holds"] for each in study.results()["verdicts"]] == [holds, True, True]


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("overlap"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert numbers[f"{DYNAMIC}.error"] < numbers[f"{CONVOLUTIONAL}.error"]
    assert numbers[f"{DYNAMIC}.drawn"] < numbers["copy.drawn"]
    assert numbers[f"{DYNAMIC}.absent"] < numbers[f"{DYNAMIC}.present"]
    assert result["verdicts"][0]["holds"] is True
    for name in ("pairs.png", "pairs.svg", "asked.png", "asked.svg", "report.html", "result.json"):
        assert (tmp_path / name).stat().st_size > 1000
