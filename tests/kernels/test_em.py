from __future__ import annotations

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
    outputs,
    run,
    shared_matrix,
)
from torchcaps.routing import EMRouting

CASES = {"conv": conv, "class": classes, "dense": dense_matrix, "shared": shared_matrix}
OPTIONS = {
    "paper": {},
    "normalized": {"normalize_mass": True, "inverse_temperature": 0.5, "beta_a": 0.3},
    "mixing": {"activation": "mixing"},
    "constant temperature": {"decay": 0.0, "epsilon": 1e-3},
    "one": {"iterations": 1},
    "four": {"iterations": 4},
}


def routing_for(case: Case, **options: object) -> EMRouting:
    """With betas that differ from parent to parent."""
    routing = EMRouting(case.weight.shape[-3], **options).to(case.pose.dtype)  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in routing.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return routing


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("geometry", CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_forms_agree(dtype, geometry, options):
    case = geometry(dtype=dtype)
    assert_forms_agree(routing_for(case, **options), case)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("parents", [1, 5, 33])
def test_every_instruction_set(instruction_set, dtype, parents):
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
    batch, height, width, types, parents, kernel_size, stride, padding, double, mixing, seed
):
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
def test_any_number_of_capsules(batch, children, parents, seed):
    torch.manual_seed(seed)
    for make in (dense_matrix, shared_matrix):
        case = make(batch, children, parents, dtype=torch.float32)
        assert_forms_agree(routing_for(case), case)


def test_one_beta_for_all_types():
    case = conv()
    assert_forms_agree(EMRouting(beta_a=0.5, beta_u=0.2).double(), case)


def test_inputs_need_not_be_contiguous():
    case = conv(dtype=torch.float32)
    scattered = Case(
        case.pose.transpose(1, 2).contiguous().transpose(1, 2),
        case.weight.transpose(-1, -2).contiguous().transpose(-1, -2),
        case.activation.t().contiguous().t(),
        case.geometry,
    )
    assert not scattered.pose.is_contiguous()
    routing = routing_for(case)
    for kind in (0, 1):
        for found, wanted in zip(
            run(routing, scattered, fused=True)[kind], run(routing, case, fused=True)[kind]
        ):
            assert torch.equal(found, wanted)


def test_gradients_by_finite_differences():
    case = conv(1, 3, 4, 1, 2, 2, 1, 0)
    routing = routing_for(case, normalize_mass=True, inverse_temperature=1.0)

    def fused(pose, weight, activation, *beta):
        routed = torch.func.functional_call(
            routing, dict(zip(("beta_u", "beta_a"), beta)), (case.geometry(pose, weight), activation),
            {"coupling": False},
        )  # fmt: skip
        assert routed.coupling is None
        return tuple(outputs(routed))

    beta = [p.detach().clone().requires_grad_() for p in (routing.beta_u, routing.beta_a)]
    assert torch.autograd.gradcheck(fused, (*case.leaves(), *beta))


def test_a_cluster_far_from_where_sums_are_taken():
    """Votes that agree around 100, one elsewhere: the variance must not drown in the mean's square."""
    case = dense_matrix(children=12, parents=2, dtype=torch.float32)
    torch.manual_seed(1)
    case.pose[:] = 100 + 1e-3 * torch.randn_like(case.pose)
    case.pose[:, 0] = -100
    case.weight[:] = torch.eye(4)
    case.activation[:, 0] = 1e-5
    assert_forms_agree(routing_for(case), case)


@pytest.mark.parametrize("iterations", [1, 3])
def test_second_derivatives_say_what_to_do(iterations):
    case = conv()
    pose, weight, activation = case.leaves()
    routed = routing_for(case, iterations=iterations)(case.geometry(pose, weight), activation, coupling=False)
    (slope,) = torch.autograd.grad(routed.pose.sum(), pose, create_graph=True)
    with pytest.raises(NotImplementedError, match="disabled"):
        slope.sum().backward()


def test_many_geometries_in_turn():
    """More than the cache of inverted indices holds, forward and backward, each twice."""
    cases = [conv(1, 3 + k // 5, 3 + k % 5, 1, 2, stride=1 + k % 2) for k in range(20)]
    for case in [*cases, *cases]:
        assert_forms_agree(EMRouting(2).double(), case)
