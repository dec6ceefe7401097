from pathlib import Path

import pytest
import torch

from torchcaps.data import load
from torchcaps.experiments.fixed_point import CLAIM, train_network
from torchcaps.experiments.fixed_point.figures import SHOWN
from torchcaps.experiments.fixed_point.iterations import (
    ITERATIONS,
    Curves,
    last_layer_inputs,
    measure_iterations,
    sorted_couplings,
    with_update,
)
from torchcaps.experiments.fixed_point.verdicts import add_verdicts, iterations_caption
from torchcaps.experiments.framework.networks import digit_capsnet
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.statistics import normalized_entropy
from torchcaps.experiments.framework.study import Study
from torchcaps.models import create_model
from torchcaps.routing import DynamicRouting
from torchcaps.training import evaluate
from torchcaps.votes import DenseVotes


def test_accumulation_hardens_and_the_fixed_point_converges() -> None:
    """The claim itself, on random votes instead of those of a trained network."""
    votes = DenseVotes(torch.randn(4, 30, 4), 0.4 * torch.randn(30, 5, 4, 8))
    activation = torch.ones(4, 30)
    hard, soft = (
        with_update(DynamicRouting(), update, 300).history(votes, activation)
        for update in ("accumulate", "fixed_point")
    )
    assert normalized_entropy(hard[-1].coupling) < 0.1 * normalized_entropy(soft[-1].coupling)
    assert (soft[-1].pose - soft[-2].pose).norm(dim=-1).max() < 1e-5


def test_one_long_routing_gives_the_accuracy_of_every_shorter_one() -> None:
    """Iteration 3 of a hundred has the accuracy of the network itself, which has 3 iterations."""
    images = load("digits", "test", size=28).select(torch.arange(40))
    model = create_model("capsnet_small", channels=8, types=2).eval()
    curves = measure_iterations(model, images, "accumulate", batch_size=16)
    assert curves["accuracy"][2] == pytest.approx(100 * evaluate(model, images).accuracy)
    assert len(curves["entropy"]) == len(curves["change"]) == ITERATIONS
    assert curves["entropy"][0] == pytest.approx(100, abs=1e-4)
    assert curves["change"][0] == 0 < curves["change"][1]


def test_shown_couplings_are_those_of_the_routing() -> None:
    model = create_model("capsnet_small", channels=8, types=1).eval()
    image = torch.rand(1, 1, 28, 28)
    layer, children = last_layer_inputs(model, image)
    third = layer.history(children)[2].coupling[0]
    shown = sorted_couplings(model, image, "accumulate", SHOWN)[1]
    torch.testing.assert_close(shown.sort(0).values, third.sort(0).values)


def example_curves(
    *, hard: float, change: float, entropy: float, accuracy: float
) -> dict[str, dict[str, Curves]]:
    """Curves of accumulation and of the fixed point with the given final values."""
    accumulated = {
        "hard": hard,
        "change": [1e-4],
        "entropy": torch.linspace(100, 5, ITERATIONS).tolist(),
        "accuracy": [90.0] * ITERATIONS,
    }
    fixed = {
        "hard": 0.0,
        "change": [change],
        "entropy": [entropy] * ITERATIONS,
        "accuracy": [90.0] * (ITERATIONS - 1) + [accuracy],
    }
    return {
        update: {"accumulate": result, "fixed_point": result}
        for update, result in (("accumulate", accumulated), ("fixed_point", fixed))
    }


@pytest.mark.parametrize(
    ("curves", "holds", "expected", "unexpected"),
    [
        (
            example_curves(hard=95, change=1e-9, entropy=98, accuracy=99),
            [True, True],
            ["and decreasing", "and constant", "(converged)", "almost no routing", "better than"],
            ["not converged"],
        ),
        (
            example_curves(hard=40, change=1e-9, entropy=50, accuracy=91),
            [None, False],
            ["(converged)", "not different from"],
            ["almost no routing"],
        ),
        (
            example_curves(hard=95, change=1e-3, entropy=50, accuracy=70),
            [None, False],
            ["(not converged)", "worse than"],
            [],
        ),
        (
            example_curves(hard=40, change=1e-3, entropy=98, accuracy=90),
            [False, False],
            ["(not converged)"],
            [],
        ),
    ],
)
def test_verdicts_follow_the_numbers(
    tmp_path: Path,
    curves: dict[str, dict[str, Curves]],
    holds: list[bool | None],
    expected: list[str],
    unexpected: list[str],
) -> None:
    study = Study(tmp_path, quick=True)
    add_verdicts(study, curves, count=400)
    assert [each["holds"] for each in study.results()["verdicts"]] == holds
    text = " ".join(str(each) for each in study.items)
    assert [words for words in expected if words not in text] == []
    assert [words for words in unexpected if words in text] == []


def test_more_iterations_must_be_better_by_two_standard_errors(tmp_path: Path) -> None:
    """2 points on 400 images are more than one standard error (1.4) and less than two."""
    study = Study(tmp_path, quick=True)
    add_verdicts(study, example_curves(hard=95, change=1e-9, entropy=98, accuracy=92), count=400)
    assert study.results()["verdicts"][1]["holds"] is False


@pytest.mark.parametrize(("change", "words"), [(1e-9, "have converged"), (1e-3, "have not converged")])
def test_caption_says_whether_poses_converged(change: float, words: str) -> None:
    curves = example_curves(hard=95, change=change, entropy=98, accuracy=90)
    assert words in iterations_caption({update: result["accumulate"] for update, result in curves.items()})


def test_networks_differ_in_the_update_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Study, "train", lambda study, name, recipe: recipe)
    study = Study(tmp_path, quick=False)
    accumulate, fixed = (train_network(study, update) for update in ("accumulate", "fixed_point"))
    # The recipe that other experiments train too, so that its run is taken from there.
    assert accumulate == digit_capsnet()
    assert fixed == accumulate.override(['model.options.update="fixed_point"'])
    assert DynamicRouting().update == "accumulate"


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert result["verdicts"][0]["holds"] is True
    numbers = result["numbers"]
    assert numbers["trained with accumulate.fixed_point.accuracy"] > 95
    for name in ("iterations.png", "iterations.svg", "couplings.png", "couplings.svg", "report.html"):
        assert (tmp_path / name).is_file()
