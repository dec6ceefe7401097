from pathlib import Path

import pytest
import torch

from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.implicit import CLAIM, judge
from torchcaps.experiments.implicit.activation import (
    EXACT,
    LINEAR,
    RELU,
    ImplicitActivation,
    measure_convergence,
    slope,
    solve,
    unrolled,
)
from torchcaps.experiments.implicit.sequence import AGREEING, attention_to_mean, make_sequences


def test_solution_solves_the_equation() -> None:
    x = torch.linspace(-20, 20, 501, dtype=torch.float64)
    y = solve(x)
    torch.testing.assert_close(y + torch.cos(y), x)


def test_unrolled_iterations_approach_solution_and_slope() -> None:
    # Away from |sin y| = 1, where the iteration is slow.
    x = torch.linspace(-0.5, 0.8, 21, dtype=torch.float64, requires_grad=True)
    y = unrolled(x, 400)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y.detach(), solve(x.detach()))
    torch.testing.assert_close(gradient, slope(y.detach()))


def test_implicit_gradient_is_that_of_finite_differences() -> None:
    x = torch.tensor([-2.0, 0.0, 0.9, 3.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ImplicitActivation.apply, x)


def test_every_iteration_comes_closer() -> None:
    errors = [values["error"] for values in measure_convergence().values()]
    assert errors == sorted(errors, reverse=True)


def test_attention_converges_to_a_fixed_point() -> None:
    vectors = 3 * make_sequences(0, 8, 0)[0].vectors.double()
    x, weight = attention_to_mean(vectors, 500)
    again = (torch.softmax((vectors @ x.unsqueeze(-1)).squeeze(-1), 1).unsqueeze(-1) * vectors).sum(1)
    torch.testing.assert_close(again, x)
    torch.testing.assert_close(weight.sum(1), torch.ones(8, dtype=torch.float64))


def test_no_iterations_are_the_mean_and_order_does_not_matter() -> None:
    vectors = make_sequences(1, 4, 0)[0].vectors
    torch.testing.assert_close(attention_to_mean(vectors, 0)[0], vectors.mean(1))
    torch.testing.assert_close(attention_to_mean(vectors.flip(1), 3)[0], attention_to_mean(vectors, 3)[0])


def test_vectors_of_a_class_agree() -> None:
    train, test = make_sequences(2, 300, 5)
    assert len(test.labels) == 5
    same = train.vectors[train.labels == 3]
    mean = torch.nn.functional.normalize(same.mean((0, 1)), dim=0)
    near = (same @ mean > 0.7).sum(1).double().mean()
    assert AGREEING - 1 < float(near) < AGREEING + 3


@pytest.mark.parametrize(
    ("three", "exact", "attended", "mean", "holds"),
    [(99.0, 99.5, 95.0, 75.0, True), (97.0, 99.5, 95.0, 75.0, False), (99.0, 99.5, 76.0, 75.0, False)],
)
def test_verdict_needs_both_examples(
    three: float, exact: float, attended: float, mean: float, holds: bool
) -> None:
    numbers = {
        "network.3 unrolled.test": three,
        f"network.{EXACT}.test": exact,
        f"network.{RELU}.test": 99.0,
        "activation.3.error": 0.15,
        "encoder.3.test": attended,
        "encoder.5.test": attended,
        "encoder.0.test": mean,
    }
    assert judge(numbers)[0] is holds


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert result["verdicts"][0]["holds"] is True
    assert result["numbers"][f"network.{LINEAR}.test"] < 85, "the arms cannot be separated by lines"
    for name in ("activation", "sequences"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
