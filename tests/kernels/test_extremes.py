"""Inputs of very different scales, for which the fused form of EM once differed from the plain form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from support.kernel_cases import Case, classes, conv, dense_matrix, run, shared_matrix
from torchcaps.routing import EMRouting


def assert_close(routing: EMRouting, case: Case, limit: float = 1e-3) -> None:
    """Check that both forms are finite and differ by at most `limit` of the norm."""
    fused, plain = (run(routing, case, fused=form) for form in (True, False))
    names = ["pose", "activation", "logit"], ["pose", "weight", "activation", "beta_u", "beta_a"]
    for kind, labels in enumerate(names):
        for name, actual, expected in zip(labels, fused[kind], plain[kind]):
            assert expected.isfinite().all(), name
            assert actual.isfinite().all(), name
            difference = (actual.double() - expected.double()).norm() / expected.double().norm().clamp(
                min=1e-30
            )
            assert difference <= limit, f"{'gradient by ' * kind}{name}: {difference:.2g}"


def test_dead_parents_have_no_gradients() -> None:
    """The mass of every parent is too small to count; a vote of 1e15 led to 0 * infinity."""
    case = dense_matrix(2, 6, 17, dtype=torch.float32)
    case.pose *= 10.0 ** torch.tensor([-11, 15, -14, -14, -8, -5.0])[:, None]
    case.activation *= 1e-30
    assert_close(EMRouting(17, iterations=2, beta_u=10.0), case)


def test_a_limited_distance_has_no_gradient() -> None:
    """All parents of a child are dead, so it is assigned to some of them at any distance."""
    case = conv(2, 4, 5, 2, 5, dtype=torch.float32)
    case.pose *= 1e15
    case.activation *= 1e-21
    assert_close(EMRouting(activation="mixing", iterations=2), case)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_dead_child_of_another_scale(dtype: torch.dtype) -> None:
    """Sums were taken around the first vote of a field, whose child may be dead and 1e20 times larger."""
    case = classes(2, 2, 5, dtype=dtype)
    case.pose[..., 0, :] *= 1e14
    case.pose[..., 1, :] *= 1e-6
    case.activation[:] = torch.tensor([0.0, 1.0], dtype=dtype).repeat(6)
    fused, plain = (run(EMRouting(5).to(dtype), case, fused=form)[0] for form in (True, False))
    for actual, expected in zip(fused, plain):
        assert torch.allclose(actual, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_finite_where_the_plain_form_is(seed: int) -> None:
    """Children of different scales with activations of 0 and 1, in every geometry."""
    torch.manual_seed(seed)
    makers: list[Callable[..., Case]] = [conv, classes, dense_matrix, shared_matrix]
    make = makers[seed % 4]
    case = make(parents=int(torch.randint(1, 18, ())), dtype=torch.float32)
    types = case.pose.shape[-2]
    case.pose *= 10.0 ** torch.randint(-15, 16, (types, 1))
    case.activation = torch.randint(2, case.activation.shape).float()
    routing = EMRouting(activation="mixing" if seed % 3 == 0 else "mdl", iterations=1 + seed % 4)
    fused, plain = (run(routing, case, fused=form) for form in (True, False))
    for actual, expected in zip([*fused[0], *fused[1]], [*plain[0], *plain[1]]):
        assert actual.isfinite().all() or not expected.isfinite().all()
