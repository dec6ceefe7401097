from pathlib import Path
from typing import Any

import pytest
import torch

from torchcaps.data import load
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.vote_agreement import CLAIM, ITERATIONS, make_recipe
from torchcaps.experiments.vote_agreement.clusters import (
    BINS,
    VoteClusters,
    measure_votes,
    summarize,
    vote_clusters,
)
from torchcaps.experiments.vote_agreement.entries import measure_entries
from torchcaps.experiments.vote_agreement.figures import smooth_histogram
from torchcaps.experiments.vote_agreement.verdicts import ROUTED, UNIFORM, add_verdicts
from torchcaps.models import capsule_inputs, create_model


@pytest.fixture
def network():
    return create_model("matrix_capsnet_small", image_size=20, channels=8, types=(2, 3, 4)).eval()


def test_first_iteration_has_uniform_coupling(network) -> None:
    steps = vote_clusters(network, torch.rand(3, 1, 20, 20))
    assert len(steps) == 3
    first = steps[0].weight
    torch.testing.assert_close(first, first.mean(2, keepdim=True).expand_as(first))
    for step in steps:
        torch.testing.assert_close(step.weight.sum((1, 2)), torch.ones(3))
        assert (step.distance >= 0).all()


def test_distances_are_from_the_weighted_mean(network) -> None:
    """The pose of a class is the mean of its votes, weighted by assignment."""
    images = torch.rand(2, 1, 20, 20)
    vote = network.routing_history(images)[-1].votes[:, 0]
    unit = vote.norm(dim=-1).mean((1, 2))[:, None]
    for step in vote_clusters(network, images):
        total = step.weight.sum(1)
        mean = torch.einsum("bij,bijd->bjd", step.weight, vote) / total.unsqueeze(-1)
        own = (step.weight * step.distance.square()).sum(1) / total
        square = (step.weight * (vote - mean.unsqueeze(1)).square().sum(-1)).sum(1) / total / unit.square()
        torch.testing.assert_close(own, square, atol=1e-5, rtol=1e-3)


def test_summary_of_a_small_example() -> None:
    distance = torch.tensor([[[0.1, 0.9], [0.3, 0.5]]])
    weight = torch.tensor([[[0.3, 0.1], [0.1, 0.5]]])
    step = VoteClusters(distance, weight, torch.tensor([[0.9, 0.2]]))
    summary = summarize(step, torch.tensor([0]), {"clipped": 0.6, "complete": 1.0})
    assert summary["own"].item() == pytest.approx((0.3 * 0.1 + 0.1 * 0.3) / 0.4)
    assert summary["rival"].item() == pytest.approx((0.1 * 0.9 + 0.5 * 0.5) / 0.6)
    assert summary["share"].item() == pytest.approx(40)
    assert summary["complete"].shape == (1, 3, BINS)
    torch.testing.assert_close(summary["complete"].sum(2), torch.tensor([[0.4, 0.6, 0.0]]))
    # The vote at 0.9 is beyond the end of the clipped histogram.
    torch.testing.assert_close(summary["clipped"].sum(2), torch.tensor([[0.4, 0.5, 0.0]]))


def test_every_image_is_counted_once(network) -> None:
    images = load("digits", "test", size=20).select(torch.arange(30))
    results = measure_votes(network, images.images.float() / 255, images.labels)
    assert results["correct"]["count"] + results["wrong"]["count"] == 30
    assert results["accuracy"] == pytest.approx(100 * results["correct"]["count"] / 30)
    for step in results["wrong"]["complete"]:
        assert sum(map(sum, step)) == pytest.approx(1, abs=0.01), "nothing is cut off"


@pytest.mark.parametrize("quick", [True, False])
def test_three_iterations_of_matrix_capsules_as_in_the_figure(tmp_path: Path, quick: bool) -> None:
    recipe = make_recipe(Study(tmp_path, quick=quick), "toys", ITERATIONS[ROUTED])
    assert recipe.model.name == "matrix_capsnet_small"
    assert recipe.data.name == ("digits" if quick else "toys")
    assert recipe.model.options["iterations"] == 3
    assert ITERATIONS == {ROUTED: 3, UNIFORM: 1}


def test_smoothing_keeps_the_sum_of_the_weights() -> None:
    points = torch.linspace(0, 1, 2001)
    curve = smooth_histogram(torch.tensor([0.3, 0.6]), torch.tensor([0.25, 0.5]), points)
    assert torch.trapezoid(curve, points).item() == pytest.approx(0.75, rel=1e-3)


def example_results(accuracy: float, *distances: float) -> dict[str, Any]:
    """Results of a network with these mean distances after each iteration, and a growing share of votes."""
    steps = [{"own": own, "rival": 1.0, "share": 10.0 + 30 * number} for number, own in enumerate(distances)]
    return {"accuracy": accuracy, "correct": {"count": 9, "steps": steps}, "wrong": {"count": 0}}


@pytest.mark.parametrize(
    ("routed", "uniform", "holds", "words"),
    [
        (
            example_results(99, 0.8, 0.3),
            example_results(95, 0.6),
            [True, True, True],
            ["tighter with routing", "better with routing"],
        ),
        (
            example_results(95, 0.8, 0.3),
            example_results(99, 0.2),
            [True, False, False],
            ["tighter without routing", "better without routing"],
        ),
        (
            example_results(95, 0.8, 0.3),
            example_results(95.5, 0.3),
            [True, False, None],
            ["about equally tight", "within chance"],
        ),
        (
            example_results(99, 0.4, 0.5),
            example_results(95, 0.9),
            [False, True, True],
            ["increases by 25.0 %", "tighter with routing"],
        ),
    ],
)
def test_verdicts_follow_the_numbers(
    tmp_path: Path, routed: dict, uniform: dict, holds: list[bool | None], words: list[str]
) -> None:
    study = Study(tmp_path, quick=True)
    add_verdicts(study, {ROUTED: routed, UNIFORM: uniform}, count=1000)
    verdicts = study.results()["verdicts"]
    assert [each["holds"] for each in verdicts] == holds
    text = " ".join(each["sentence"] for each in verdicts)
    assert all(each in text for each in words), text


def test_entry_that_classes_depend_on_costs_accuracy() -> None:
    """The votes for the classes see one column alone: the others may be replaced."""
    model = create_model("matrix_capsnet_small", pretrained="mnist").eval()
    images = load("digits", "test", size=28).images[:60].float() / 255
    layer = capsule_inputs(model, images)[1][-1][1]
    with torch.no_grad():
        layer.weight[..., :3, :] = 0  # a vote is the pose times the weight: only the last column counts
    labels = model(images).scores.argmax(1)
    assert len(labels.unique()) > 1, "a network with one answer needs no entry"
    result = measure_entries(model, images, labels, batch_size=30)
    assert result["whole"] == [100.0]
    accuracy = torch.tensor(result["accuracy"])
    assert accuracy.shape == (4, 4)
    assert (accuracy[:, :3] == 100).all()
    assert accuracy[:, 3].min() < 100


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    numbers = result["numbers"]
    ratio = numbers[f"{ROUTED}.correct.3.own"] / numbers[f"{ROUTED}.correct.1.own"]
    assert ratio < 1
    assert not (result["verdicts"][0]["holds"] and ratio >= 0.75)
    assert numbers[f"{ROUTED}.accuracy"] > 90
    assert numbers[f"{ROUTED}.accuracy"] > numbers[f"{UNIFORM}.accuracy"]
    for name in ("average", "complete", "examples"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "report.html").is_file()
