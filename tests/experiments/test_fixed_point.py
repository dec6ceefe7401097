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
from torchcaps.experiments.fixed_point.verdicts import Curves, caption_of, judge
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.models import create_model
from torchcaps.routing import DynamicRouting
from torchcaps.training import evaluate
from torchcaps.votes import DenseVotes


def test_softness_runs_from_one_to_zero() -> None:
    assert softness(torch.full((3, 10), 0.1)) == pytest.approx(1)
    assert softness(torch.eye(4)) == 0


def test_accumulation_hardens_and_the_fixed_point_rests() -> None:
    """The claim itself, on random votes that no network has learned."""
    votes = DenseVotes(torch.randn(4, 30, 4), 0.4 * torch.randn(30, 5, 4, 8))
    present = torch.ones(4, 30)
    hard, soft = (
        routing_like(DynamicRouting(), update, 300).history(votes, present)
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
    third = layer.history(children)[2].coupling[0]
    shown = sorted_couplings(model, image, "accumulate")[1]
    torch.testing.assert_close(shown.sort(0).values, third.sort(0).values)


def made_up(*, settled: float, change: float, entropy: float, right: float) -> Curves:
    """Accumulation that settles so far, and a fixed point that moves, stays soft and is right so much."""
    hard = {
        "settled": settled,
        "change": [1e-4],
        "entropy": torch.linspace(100, 5, ITERATIONS).tolist(),
        "accuracy": [90.0] * ITERATIONS,
    }
    soft = {
        "settled": 0.0,
        "change": [change],
        "entropy": [entropy] * ITERATIONS,
        "accuracy": [90.0] * (ITERATIONS - 1) + [right],
    }
    return {
        update: {"accumulate": found, "fixed_point": found}
        for update, found in (("accumulate", hard), ("fixed_point", soft))
    }


@pytest.mark.parametrize(
    ("curves", "holds", "words", "none"),
    [
        (
            made_up(settled=95, change=1e-9, entropy=98, right=99),
            [True, True],
            ["left and falling", "left and steady", ", at rest", "no routing at all", "better than"],
            ["not yet"],
        ),
        (
            made_up(settled=40, change=1e-9, entropy=50, right=91),
            [None, False],
            [", at rest", "no different than"],
            ["no routing at all"],
        ),
        (
            made_up(settled=95, change=1e-3, entropy=50, right=70),
            [None, False],
            ["not yet at rest", "worse"],
            [],
        ),
        (made_up(settled=40, change=1e-3, entropy=98, right=90), [False, False], ["not yet at rest"], []),
    ],
)
def test_verdicts_say_what_was_measured(
    tmp_path: Path, curves: Curves, holds: list[bool | None], words: list[str], none: list[str]
) -> None:
    study = Study(tmp_path, quick=True)
    judge(study, curves, count=400)
    assert [each["holds"] for each in study.results()["verdicts"]] == holds
    said = " ".join(str(each) for each in study.items)
    assert [each for each in words if each not in said] == []
    assert [each for each in none if each in said] == []


def test_more_iterations_are_better_by_two_standard_errors_only(tmp_path: Path) -> None:
    """2 points on 400 images are more than one standard error (1.4) and less than two."""
    study = Study(tmp_path, quick=True)
    judge(study, made_up(settled=95, change=1e-9, entropy=98, right=92), count=400)
    assert study.results()["verdicts"][1]["holds"] is False


@pytest.mark.parametrize(("change", "words"), [(1e-9, "have come to rest"), (1e-3, "have not come to rest")])
def test_the_caption_says_rest_only_if_it_is_so(change: float, words: str) -> None:
    curves = made_up(settled=95, change=change, entropy=98, right=90)
    assert words in caption_of({update: found["accumulate"] for update, found in curves.items()})


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert result["verdicts"][0]["holds"] is True
    numbers = result["numbers"]
    assert numbers["trained with accumulate.fixed_point.accuracy"] > 95
    for name in ("iterations.png", "iterations.svg", "couplings.png", "couplings.svg", "report.html"):
        assert (tmp_path / name).is_file()
