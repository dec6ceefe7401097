from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from support.kernel_cases import (
    Case,
    assert_forms_agree,
    classes,
    conv,
    dense_matrix,
    difference,
    outputs,
    run,
    shared_matrix,
)
from torchcaps import kernels
from torchcaps.routing import HeinsenRouting

CASES = {"conv": conv, "class": classes, "dense": dense_matrix, "shared": shared_matrix}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bias": {"bias": True, "pose_dim": 16},
    "epsilon": {"epsilon": 1e-2},
    "one": {"iterations": 1, "bias": True, "pose_dim": 16},
    "four": {"iterations": 4},
}


def routing_for(case: Case, *, by_row: bool = True, scale: float = 0.5, **options: Any) -> HeinsenRouting:
    """Heinsen routing with random betas and biases, one for each row of the weight or one for all."""
    rows = tuple(case.weight.shape[:-3]) if by_row else ()
    routing = HeinsenRouting(case.weight.shape[-3], rows=rows, **options).to(case.pose.dtype)
    with torch.no_grad():
        for parameter in routing.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return routing


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("geometry", CASES.values(), ids=CASES)
@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "one row"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_forms_agree(
    dtype: torch.dtype, by_row: bool, geometry: Callable[..., Case], options: dict[str, Any]
) -> None:
    case = geometry(dtype=dtype)
    assert_forms_agree(routing_for(case, by_row=by_row, **options), case)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("parents", [1, 5, 33])
def test_every_instruction_set(instruction_set: str, dtype: torch.dtype, parents: int) -> None:
    case = conv(parents=parents, dtype=dtype)
    assert_forms_agree(routing_for(case, bias=True, pose_dim=16), case)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batch=st.integers(1, 3), height=st.integers(1, 6), width=st.integers(1, 6), types=st.integers(1, 4),
    parents=st.integers(1, 18), kernel_size=st.integers(1, 3), stride=st.integers(1, 3),
    padding=st.integers(0, 2), double=st.booleans(), bias=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_convolution(
    batch: int, height: int, width: int, types: int, parents: int, kernel_size: int, stride: int,
    padding: int, double: bool, bias: bool, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    padding = min(padding, kernel_size - 1)
    kernel_size = min(kernel_size, height + 2 * padding, width + 2 * padding)
    padding = min(padding, kernel_size - 1)
    dtype = torch.float64 if double else torch.float32
    case = conv(batch, height, width, types, parents, kernel_size, stride, padding, dtype)
    assert_forms_agree(routing_for(case, bias=bias, pose_dim=16), case)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batch=st.integers(1, 3), children=st.integers(1, 9), parents=st.integers(1, 20), seed=st.integers(0, 99)
)
def test_any_number_of_capsules(batch: int, children: int, parents: int, seed: int) -> None:
    torch.manual_seed(seed)
    for make in (dense_matrix, shared_matrix):
        case = make(batch, children, parents, dtype=torch.float32)
        assert_forms_agree(routing_for(case), case)


def test_one_beta_for_all_types() -> None:
    case = conv()
    routing = HeinsenRouting(rows=tuple(case.weight.shape[:1]), bias=True, pose_dim=16).double()
    with torch.no_grad():
        for parameter in routing.parameters():
            parameter.normal_()
    assert_forms_agree(routing, case)


def reference(case: Case, routing: HeinsenRouting) -> tuple[Tensor, Tensor]:
    """Poses and logits of dense votes, by loops over the formulas of the class."""
    beta_use, beta_ignore, bias = (p.detach() for p in routing.parameters())
    children, parents = case.weight.shape[:2]
    poses, logits = torch.zeros(parents, 16).double(), torch.zeros(parents).double()
    vote = torch.stack(
        [
            torch.stack([(case.pose[0, i].view(4, 4) @ case.weight[i, j]).flatten() + bias[i, j]
                         for j in range(parents)]) for i in range(children)
        ]
    )  # fmt: skip
    assignment = torch.full((children, parents), 1 / parents).double()
    for _ in range(routing.iterations):
        score = torch.zeros(children, parents).double()
        for j in range(parents):
            use = case.activation[0] * assignment[:, j]
            ignore = case.activation[0] - use
            logits[j] = (beta_use[:, j] * use).sum() - (beta_ignore[:, j] * ignore).sum()
            poses[j] = (use[:, None] * vote[:, j]).sum(0) / use.sum()
            variance = (use[:, None] * (vote[:, j] - poses[j]) ** 2).sum(0) / use.sum() + 1e-5
            density = torch.distributions.Normal(poses[j], variance.sqrt()).log_prob(vote[:, j]).sum(1)
            score[:, j] = torch.nn.functional.logsigmoid(logits[j]) + density
        assignment = torch.softmax(score, 1)
    return poses, logits


def test_the_formulas() -> None:
    case = dense_matrix(1, 6, 5)
    routing = routing_for(case, bias=True, pose_dim=16)
    routed = routing.fused(case.votes(), case.activation)
    assert routed is not None
    pose, logits = reference(case, routing)
    assert torch.allclose(routed.pose[0, 0], pose)
    assert torch.allclose(routed.logits[0, 0], logits)
    assert torch.allclose(routed.activation[0, 0], torch.sigmoid(logits))


@pytest.mark.parametrize("geometry", [conv, dense_matrix])
def test_gradients_by_finite_differences(geometry: Callable[..., Case]) -> None:
    case = conv(1, 3, 4, 1, 2, 2, 1, 0) if geometry is conv else dense_matrix(1, 4, 3)
    routing = routing_for(case, bias=True, pose_dim=16)
    names = [name for name, _ in routing.named_parameters()]

    def fused(pose: Tensor, weight: Tensor, activation: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        result = torch.func.functional_call(
            routing, dict(zip(names, parameters)), (case.geometry(pose, weight), activation),
            {"coupling": False},
        )  # fmt: skip
        assert result.coupling is None
        return tuple(outputs(result))

    parameters = [p.detach().clone().requires_grad_() for p in routing.parameters()]
    assert torch.autograd.gradcheck(fused, (*case.leaves(), *parameters), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("geometry", CASES.values(), ids=CASES)
def test_all_parents_dead(dtype: torch.dtype, geometry: Callable[..., Case]) -> None:
    """Children without activation: logits 0, poses 0, and gradients by the activations alone."""
    case = geometry(dtype=dtype)
    case.activation[:] = 0
    routing = routing_for(case)
    (pose, activation, logits), gradients = run(routing, case, fused=True)
    assert not pose.any()
    assert not logits.any()
    assert (activation == 0.5).all()
    assert [g.any().item() for g in gradients] == [False, False, True, False, False]
    assert_forms_agree(routing, case)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_dead_parent_stays_dead(dtype: torch.dtype) -> None:
    """A logit of about -1e4 leaves a parent without mass; votes of 0 must not go back to it, at pose 0."""
    case = dense_matrix(2, 12, 3, dtype=dtype)
    case.pose[:, :4] = 0
    routing = routing_for(case, iterations=4)
    with torch.no_grad():
        routing.beta_use[:, 0] = -1e4
        routing.beta_ignore[:, 0] = 0
    pose, activation, logits = run(routing, case, fused=True)[0]
    assert not pose[..., 0, :].any()
    assert not logits[..., 0].any()
    assert (activation[..., 0] == 0.5).all()
    assert_forms_agree(routing, case)


@pytest.mark.parametrize("live", [1, 2, 3])
@pytest.mark.parametrize("scale", [1, 100])
def test_few_live_children(live: int, scale: float) -> None:
    """As in docs/kernels.md: what depends on the difference of two distances is exactly 0."""
    case = dense_matrix(2, 6, 5, dtype=torch.float32)
    case.pose *= scale
    case.activation[:, live:] = 0
    routing = routing_for(case)
    fused, plain = (run(routing, case, fused=form) for form in (True, False))
    for actual, expected in zip(fused[0], plain[0]):
        assert difference(actual, expected) <= 1e-4
    error = sum((a - e).double().square().sum() for a, e in zip(fused[1], plain[1]))
    norm = sum(e.double().square().sum() for e in plain[1])
    assert error <= (5e-4) ** 2 * norm


def test_many_children() -> None:
    """Sums over thousands of votes in float32."""
    case = shared_matrix(1, 3000, 20, dtype=torch.float32)
    assert_forms_agree(routing_for(case, bias=True, pose_dim=16, scale=0.05), case)


@pytest.mark.parametrize("seed", range(24))
def test_finite_where_the_plain_form_is(seed: int) -> None:
    """Children of different scales with activations of 0 and 1, in every geometry."""
    torch.manual_seed(seed)
    make = list(CASES.values())[seed % 4]
    case = make(parents=int(torch.randint(1, 18, ())), dtype=torch.float32)
    case.pose *= 10.0 ** torch.randint(-15, 16, (case.pose.shape[-2], 1))
    case.activation = torch.randint(2, case.activation.shape).float()
    routing = routing_for(case, iterations=1 + seed % 5)
    # Sample by sample: in a batch, the plain form takes float64 for all if one sample has few children.
    poses, activations = case.pose, case.activation
    for case.pose, case.activation in zip(poses.split(1), activations.split(1)):
        fused, plain = (run(routing, case, fused=form) for form in (True, False))
        for actual, expected in zip([*fused[0], *fused[1]], [*plain[0], *plain[1]]):
            assert actual.isfinite().all() or not expected.isfinite().all()


class Doubled(HeinsenRouting):
    """A subclass, which may iterate in another way."""


def test_where_no_kernel_fits() -> None:
    case = dense_matrix()
    assert Doubled().fused(case.votes(), case.activation) is None
    assert HeinsenRouting().fused(case.votes(), case.activation) is None  # float32 betas
    with kernels.disabled():
        assert HeinsenRouting().double().fused(case.votes(), case.activation) is None


def test_second_derivatives_are_an_error() -> None:
    case = conv()
    pose, weight, activation = case.leaves()
    result = routing_for(case)(case.geometry(pose, weight), activation)
    (slope,) = torch.autograd.grad(result.pose.sum(), pose, create_graph=True)
    with pytest.raises(NotImplementedError, match="disabled"):
        slope.sum().backward()
