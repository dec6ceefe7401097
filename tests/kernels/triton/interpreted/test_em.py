"""EM routing by Triton kernels: values and gradients against the plain form in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.kernel_cases import (
    Case,
    assert_forms_agree,
    classes,
    conv,
    dense_matrix,
    run,
    shared_matrix,
)
from torchcaps.kernels.triton import em
from torchcaps.routing import EMRouting

CASES: dict[str, Callable[..., Case]] = {
    "conv": conv,
    "class": classes,
    "dense": dense_matrix,
    "shared": shared_matrix,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "normalized": {"normalize_mass": True, "inverse_temperature": 0.5, "beta_a": 0.3},
    "mixing": {"activation": "mixing"},
    "constant temperature": {"decay": 0.0, "epsilon": 1e-3},
    "one": {"iterations": 1},
    "four": {"iterations": 4},
}


def small_conv(**sizes: Any) -> Case:
    """Fields that leave the image, and children in one, two or four fields."""
    return conv(1, 4, 4, 2, 3, kernel_size=3, stride=2, padding=1, **sizes)


def routing_for(case: Case, **options: Any) -> EMRouting:
    """EM routing with different betas for each parent."""
    routing = EMRouting(case.weight.shape[-3], **options)
    with torch.no_grad():
        for parameter in routing.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return routing


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (small_conv, "mixing"),
        (dense_matrix, "one"),
    ],
)
def test_forms_agree(make: Callable[..., Case], options: str) -> None:
    case = make(dtype=torch.float32)
    assert_forms_agree(routing_for(case, **OPTIONS[options]), case)


@pytest.mark.usefixtures("small_blocks")
def test_several_blocks_and_splits() -> None:
    case = conv(1, 3, 4, 1, 3, kernel_size=3, stride=2, padding=1, dtype=torch.float32)
    assert_forms_agree(routing_for(case, iterations=2), case)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_several_blocks_and_splits_everywhere(make: Callable[..., Case]) -> None:
    case = make(dtype=torch.float32)
    assert_forms_agree(routing_for(case, iterations=2), case)


def test_children_without_parents() -> None:
    """With a stride of 3 and fields of 2, a third of the rows and columns is in no field."""
    case = conv(1, 5, 5, 1, 2, kernel_size=2, stride=3, padding=0, dtype=torch.float32)
    assert_forms_agree(routing_for(case, iterations=2), case)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)], ids=str
)
def test_half_precision_is_read_and_computed_in_float32(dtype: torch.dtype) -> None:
    case = dense_matrix(dtype=torch.float32)
    halves = [case.pose.to(dtype), case.activation, case.weight.to(dtype)]
    options = (None, None, None, None, [0.1, 0.2], 1.0, 1e-6)
    *half, kept = em.em_forward(*halves, *options)
    *single, same = em.em_forward(*(t.float() for t in halves), *options)
    assert all(torch.equal(a, b) for a, b in zip(half, single))
    grads = em.em_backward(*half, kept, *halves, *options)
    wide = em.em_backward(*single, same, *(t.float() for t in halves), *options)
    assert [g.dtype for g in grads[:3]] == [dtype, torch.float32, dtype]
    assert all(torch.equal(a, b.to(a.dtype)) for a, b in zip(grads, wide))


def test_an_empty_batch() -> None:
    case = conv(batch=0, dtype=torch.float32)
    values, gradients = run(EMRouting(4), case, fused=True)
    assert values[0].shape == (0, 9, 4, 16)
    assert all((g == 0).all() for g in gradients)


def assert_close(routing: EMRouting, case: Case, limit: float = 1e-3) -> None:
    """Check that both forms are finite and differ by at most `limit` of the norm."""
    fused, plain = (run(routing, case, fused=form) for form in (True, False))
    for actual, expected in zip([*fused[0], *fused[1]], [*plain[0], *plain[1]]):
        assert expected.isfinite().all()
        assert actual.isfinite().all()
        scale = expected.double().norm().clamp(min=1e-30)
        assert (actual.double() - expected.double()).norm() <= limit * scale


def test_dead_parents_have_no_gradients() -> None:
    case = dense_matrix(2, 6, 5, dtype=torch.float32)
    case.pose *= 10.0 ** torch.tensor([-11, 15, -14, -14, -8, -5.0])[:, None]
    case.activation *= 1e-30
    assert_close(EMRouting(5, iterations=2, beta_u=10.0), case)


@pytest.mark.slow
def test_a_limited_distance_has_no_gradient() -> None:
    case = conv(1, 3, 4, 2, 3, dtype=torch.float32)
    case.pose *= 1e15
    case.activation *= 1e-21
    assert_close(EMRouting(activation="mixing", iterations=2), case)


@pytest.mark.slow
def test_a_cluster_far_from_the_others() -> None:
    """Votes that agree around 100, and one at -100: the small variance must not be lost."""
    case = dense_matrix(1, children=8, parents=2, dtype=torch.float32)
    torch.manual_seed(1)
    case.pose[:] = 100 + 1e-3 * torch.randn_like(case.pose)
    case.pose[:, 0] = -100
    case.weight[:] = torch.eye(4)
    case.activation[:, 0] = 1e-5
    assert_forms_agree(routing_for(case), case)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_forms_agree_everywhere(make: Callable[..., Case], options: dict[str, Any]) -> None:
    case = make(dtype=torch.float32)
    assert_forms_agree(routing_for(case, **options), case)


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    batch=st.integers(1, 3), height=st.integers(1, 6), width=st.integers(1, 6), types=st.integers(1, 4),
    parents=st.integers(1, 18), kernel_size=st.integers(1, 3), stride=st.integers(1, 3),
    padding=st.integers(0, 2), mixing=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_convolution(
    batch: int, height: int, width: int, types: int, parents: int, kernel_size: int, stride: int,
    padding: int, mixing: bool, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    padding = min(padding, kernel_size - 1)
    kernel_size = min(kernel_size, height + 2 * padding, width + 2 * padding)
    padding = min(padding, kernel_size - 1)
    case = conv(batch, height, width, types, parents, kernel_size, stride, padding, torch.float32)
    assert_forms_agree(routing_for(case, activation="mixing" if mixing else "mdl"), case)


@pytest.mark.slow
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    batch=st.integers(1, 3), children=st.integers(1, 9), parents=st.integers(1, 20), seed=st.integers(0, 99)
)
def test_any_number_of_capsules(batch: int, children: int, parents: int, seed: int) -> None:
    torch.manual_seed(seed)
    for make in (dense_matrix, shared_matrix):
        case = make(batch, children, parents, dtype=torch.float32)
        assert_forms_agree(routing_for(case), case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_finite_where_the_plain_form_is(seed: int) -> None:
    """Children of different scales with activations of 0 and 1, in every geometry."""
    torch.manual_seed(seed)
    make = list(CASES.values())[seed % 4]
    case = make(parents=int(torch.randint(1, 18, ())), dtype=torch.float32)
    case.pose *= 10.0 ** torch.randint(-15, 16, (case.pose.shape[-2], 1))
    case.activation = torch.randint(2, case.activation.shape).float()
    routing = EMRouting(activation="mixing" if seed % 3 == 0 else "mdl", iterations=1 + seed % 4)
    fused, plain = (run(routing, case, fused=form) for form in (True, False))
    for actual, expected in zip([*fused[0], *fused[1]], [*plain[0], *plain[1]]):
        assert actual.isfinite().all() or not expected.isfinite().all()
