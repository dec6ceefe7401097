from pathlib import Path
from typing import Any

import pytest
import torch

from torchcaps.data import load
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.vote_agreement import BINS, CLAIM, Clusters, look, smoothed, summary, survey
from torchcaps.experiments.vote_agreement.verdicts import ROUTED, UNIFORM, judge
from torchcaps.models import create_model


@pytest.fixture
def network():
    return create_model("matrix_capsnet_small", image_size=20, channels=8, types=(2, 3, 4)).eval()


def test_first_iteration_shares_every_vote_evenly(network) -> None:
    steps = look(network, torch.rand(3, 1, 20, 20))
    assert len(steps) == 3
    first = steps[0].weight
    torch.testing.assert_close(first, first.mean(2, keepdim=True).expand_as(first))
    for step in steps:
        torch.testing.assert_close(step.weight.sum((1, 2)), torch.ones(3))
        assert (step.distance >= 0).all()


def test_distances_are_to_the_mean_under_the_weights(network) -> None:
    """Weighted by assignment, votes lie about the class's pose."""
    images = torch.rand(2, 1, 20, 20)
    vote = network.routing_history(images)[-1].votes[:, 0]
    unit = vote.norm(dim=-1).mean((1, 2))[:, None]
    for step in look(network, images):
        mass = step.weight.sum(1)
        mean = torch.einsum("bij,bijd->bjd", step.weight, vote) / mass.unsqueeze(-1)
        own = (step.weight * step.distance.square()).sum(1) / mass
        square = (step.weight * (vote - mean.unsqueeze(1)).square().sum(-1)).sum(1) / mass / unit.square()
        torch.testing.assert_close(own, square, atol=1e-5, rtol=1e-3)


def test_summary_of_a_case_known_by_hand() -> None:
    distance = torch.tensor([[[0.1, 0.9], [0.3, 0.5]]])
    weight = torch.tensor([[[0.3, 0.1], [0.1, 0.5]]])
    step = Clusters(distance, weight, torch.tensor([[0.9, 0.2]]))
    found = summary(step, torch.tensor([0]), limit=1.0)
    assert found["own"].item() == pytest.approx((0.3 * 0.1 + 0.1 * 0.3) / 0.4)
    assert found["rival"].item() == pytest.approx((0.1 * 0.9 + 0.5 * 0.5) / 0.6)
    assert found["share"].item() == pytest.approx(40)
    assert found["histogram"].shape == (1, 2, BINS)
    torch.testing.assert_close(found["histogram"].sum(2), torch.tensor([[0.4, 0.6]]))


def test_survey_counts_all_images_once(network) -> None:
    few = load("digits", "test", size=20).select(torch.arange(30))
    found = survey(network, few)
    assert found["right"]["count"] + found["wrong"]["count"] == 30
    assert found["accuracy"] == pytest.approx(100 * found["right"]["count"] / 30)


def test_smoothing_keeps_the_weight() -> None:
    places = torch.linspace(0, 1, 2001)
    curve = smoothed(torch.tensor([0.3, 0.6]), torch.tensor([0.25, 0.5]), places)
    assert torch.trapezoid(curve, places).item() == pytest.approx(0.75, rel=1e-3)


def made_up(accuracy: float, *distances: float) -> dict[str, Any]:
    """A network whose votes for the true class end at the last of these distances, winning ever more."""
    steps = [{"own": own, "rival": 1.0, "share": 10.0 + 30 * number} for number, own in enumerate(distances)]
    return {"accuracy": accuracy, "right": {"count": 9, "steps": steps}, "wrong": {"count": 0}}


@pytest.mark.parametrize(
    ("routed", "uniform", "holds", "words"),
    [
        (made_up(99, 0.8, 0.3), made_up(95, 0.6), [True, True, True], ["tighter with", "routing is better"]),
        (
            made_up(95, 0.8, 0.3),
            made_up(99, 0.2),
            [True, False, False],
            ["tighter without", "one iteration is"],
        ),
        (made_up(95, 0.8, 0.3), made_up(95.5, 0.3), [True, False, None], ["about as tight", "than chance"]),
        (made_up(99, 0.4, 0.5), made_up(95, 0.9), [False, True, True], ["apart by 25 %", "tighter with"]),
    ],
)
def test_verdicts_say_who_is_tighter_and_who_is_more_often_right(
    tmp_path: Path, routed: dict, uniform: dict, holds: list[bool | None], words: list[str]
) -> None:
    study = Study(tmp_path, quick=True)
    judge(study, {ROUTED: routed, UNIFORM: uniform}, count=1000)
    verdicts = study.results()["verdicts"]
    assert [each["holds"] for each in verdicts] == holds
    said = " ".join(each["sentence"] for each in verdicts)
    assert all(each in said for each in words), said


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    numbers = result["numbers"]
    together = numbers[f"{ROUTED}.right.3.own"] / numbers[f"{ROUTED}.right.1.own"]
    assert together < 1
    assert not (result["verdicts"][0]["holds"] and together >= 0.75)
    assert numbers[f"{ROUTED}.accuracy"] > 90
    assert numbers[f"{ROUTED}.accuracy"] > numbers[f"{UNIFORM}.accuracy"]
    for name in ("average", "examples"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "report.html").is_file()
