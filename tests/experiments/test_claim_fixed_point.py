from pathlib import Path

import pytest
import torch

from torchcaps.data import load
from torchcaps.experiments.fixed_point import (
    CLAIM,
    ITERATIONS,
    children_of,
    follow,
    routing_like,
    softness,
    sorted_couplings,
)
from torchcaps.experiments.running import reproduce
from torchcaps.models import create_model
from torchcaps.routing import DynamicRouting
from torchcaps.training import evaluate
from torchcaps.votes import DenseVotes


def test_softness_runs_from_one_to_zero() -> None:
    assert softness(torch.full((3, 10), 0.1)) == pytest.approx(1)
    assert softness(torch.eye(4)) == 0


def test_accumulation_hardens_and_the_fixed_point_rests() -> None:
    """The claim itself, on random votes that no network has learnt."""
    votes = DenseVotes(torch.randn(4, 30, 4), 0.4 * torch.randn(30, 5, 4, 8))
    present = torch.ones(4, 30)
    hard, soft = (
        routing_like(DynamicRouting(), update, 300).trace(votes, present)
        for update in ("accumulate", "fixed_point")
    )
    assert softness(hard[-1].coupling) < 0.1 * softness(soft[-1].coupling)
    assert (soft[-1].pose - soft[-2].pose).norm(dim=-1).max() < 1e-5


def test_iterations_of_one_long_routing_are_every_shorter_one() -> None:
    """At r = 3 the pass over a hundred iterations counts what the network itself gets right."""
    few = load("digits", "test", size=28).select(torch.arange(40))
    model = create_model("capsnet_small", channels=8, types=2).eval()
    found = follow(model, few, "accumulate", batch_size=16)
    assert found["accuracy"][2] == pytest.approx(100 * evaluate(model, few).accuracy)
    assert len(found["entropy"]) == len(found["change"]) == ITERATIONS
    assert found["entropy"][0] == pytest.approx(100, abs=1e-4)
    assert found["change"][0] == 0 < found["change"][1]


def test_shown_couplings_are_those_of_the_routing() -> None:
    model = create_model("capsnet_small", channels=8, types=1).eval()
    image = torch.rand(1, 1, 28, 28)
    layer, children = children_of(model, image)
    third = layer.trace(children)[2].coupling[0]
    shown = sorted_couplings(model, image, "accumulate")[1]
    torch.testing.assert_close(shown.sort(0).values, third.sort(0).values)


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert result["verdicts"][0]["holds"] is True
    numbers = result["numbers"]
    assert numbers["trained with accumulate.fixed_point.accuracy"] > 95
    for name in ("iterations.png", "iterations.svg", "couplings.png", "couplings.svg", "report.html"):
        assert (tmp_path / name).is_file()
