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
    outputs,
    run,
    shared_matrix,
)
from torchcaps.routing import EMRouting

CASES = {"conv": conv, "class": classes, "dense": dense_matrix, "shared": shared_matrix}
OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "normalized": {"normalize_mass": True, "inverse_temperature": 0.5, "beta_a": 0.3},
    "mixing": {"activation": "mixing"},
    "constant temperature": {"decay": 0.0, "epsilon": 1e-3},
    "one": {"iterations": 1},
    "four": {"iterations": 4},
}


def routing_for(case: Case, **options: Any) -> EMRouting:
    """EM routing with different betas for each parent."""
    routing = EMRouting(case.weight.shape[-3], **options).to(case.pose.dtype)
    with torch.no_grad():
        for parameter in routing.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return routing


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("geometry", CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_forms_agree(dtype: torch.dtype, geometry: Callable[..., Case], options: dict[str, Any]) -> None:
    case = geometry(dtype=dtype)
    assert_forms_agree(routing_for(case, **options), case)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("parents", [1, 5, 33])
def test_every_instruction_set(instruction_set: str, dtype: torch.dtype, parents: int) -> None:
    case = conv(parents=parents, dtype=dtype)
    assert_forms_agree(routing_for(case), case)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batch=st.integers(1, 3), height=st.integers(1, 6), width=st.integers(1, 6), types=st.integers(1, 4),
    parents=st.integers(1, 18), kernel_size=st.integers(1, 3), stride=st.integers(1, 3),
    padding=st.integers(0, 2), double=st.booleans(), mixing=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_convolution(
    batch: int, height: int, width: int, types: int, parents: int, kernel_size: int, stride: int,
    padding: int, double: bool, mixing: bool, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    padding = min(padding, kernel_size - 1)
    kernel_size = min(kernel_size, height + 2 * padding, width + 2 * padding)
    padding = min(padding, kernel_size - 1)
    dtype = torch.float64 if double else torch.float32
    case = conv(batch, height, width, types, parents, kernel_size, stride, padding, dtype)
    assert_forms_agree(routing_for(case, activation="mixing" if mixing else "mdl"), case)


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
    assert_forms_agree(EMRouting(beta_a=0.5, beta_u=0.2).double(), case)


def test_inputs_need_not_be_contiguous() -> None:
    case = conv(dtype=torch.float32)
    transposed = Case(
        case.pose.transpose(1, 2).contiguous().transpose(1, 2),
        case.weight.transpose(-1, -2).contiguous().transpose(-1, -2),
        case.activation.t().contiguous().t(),
        case.geometry,
    )
    assert not transposed.pose.is_contiguous()
    routing = routing_for(case)
    for kind in (0, 1):
        for actual, expected in zip(
            run(routing, transposed, fused=True)[kind], run(routing, case, fused=True)[kind]
        ):
            assert torch.equal(actual, expected)


def test_gradients_by_finite_differences() -> None:
    case = conv(1, 3, 4, 1, 2, 2, 1, 0)
    routing = routing_for(case, normalize_mass=True, inverse_temperature=1.0)

    def fused(pose: Tensor, weight: Tensor, activation: Tensor, *beta: Tensor) -> tuple[Tensor, ...]:
        result = torch.func.functional_call(
            routing, dict(zip(("beta_u", "beta_a"), beta)), (case.geometry(pose, weight), activation),
            {"coupling": False},
        )  # fmt: skip
        assert result.coupling is None
        return tuple(outputs(result))

    beta = [p.detach().clone().requires_grad_() for p in (routing.beta_u, routing.beta_a)]
    assert torch.autograd.gradcheck(fused, (*case.leaves(), *beta))


def test_a_cluster_far_from_the_first_vote() -> None:
    """Votes that agree around 100, and one at -100: the small variance must not be lost."""
    case = dense_matrix(children=12, parents=2, dtype=torch.float32)
    torch.manual_seed(1)
    case.pose[:] = 100 + 1e-3 * torch.randn_like(case.pose)
    case.pose[:, 0] = -100
    case.weight[:] = torch.eye(4)
    case.activation[:, 0] = 1e-5
    assert_forms_agree(routing_for(case), case)


@pytest.mark.parametrize("iterations", [1, 3])
def test_second_derivatives_are_an_error(iterations: int) -> None:
    case = conv()
    pose, weight, activation = case.leaves()
    result = routing_for(case, iterations=iterations)(case.geometry(pose, weight), activation, coupling=False)
    (slope,) = torch.autograd.grad(result.pose.sum(), pose, create_graph=True)
    with pytest.raises(NotImplementedError, match="disabled"):
        slope.sum().backward()


def test_many_geometries() -> None:
    """More than the cache of inverted indices holds, each used twice, forward and backward."""
    cases = [conv(1, 3 + k // 5, 3 + k % 5, 1, 2, stride=1 + k % 2) for k in range(20)]
    for case in [*cases, *cases]:
        assert_forms_agree(EMRouting(2).double(), case)
