"""EM routing with a covariance of rows: the kernel has the outputs and gradients of the plain form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
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
from torchcaps.poses import SimilarityPose
from torchcaps.routing import EMRouting
from torchcaps.votes import DenseVotes

CASES = {"conv": conv, "class": classes, "dense": dense_matrix, "shared": shared_matrix}
OPTIONS: dict[str, dict[str, Any]] = {
    "mdl": {},
    "normalized": {"normalize_mass": True, "inverse_temperature": 0.5, "beta_a": 0.3},
    "mixing": {"activation": "mixing"},
    "one": {"iterations": 1, "epsilon": 1e-3},
    "four": {"iterations": 4, "decay": 0.0},
}


def routing_for(case: Case, **options: Any) -> EMRouting:
    """EM routing with different betas for each parent."""
    routing = EMRouting(case.weight.shape[-3], covariance="rows", **options).to(case.pose.dtype)
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


@pytest.mark.parametrize("parents", [1, 5, 33])
def test_every_instruction_set(instruction_set: str, parents: int) -> None:
    case = conv(parents=parents)
    assert_forms_agree(routing_for(case), case)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3), height=st.integers(1, 6), width=st.integers(1, 6), types=st.integers(1, 4),
    parents=st.integers(1, 18), kernel_size=st.integers(1, 3), stride=st.integers(1, 3),
    mixing=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_convolution(
    batch: int, height: int, width: int, types: int, parents: int, kernel_size: int, stride: int,
    mixing: bool, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    kernel_size = min(kernel_size, height, width)
    case = conv(batch, height, width, types, parents, kernel_size, stride, 0, torch.float32)
    assert_forms_agree(routing_for(case, activation="mixing" if mixing else "mdl"), case)


def test_gradients_by_finite_differences() -> None:
    case = conv(1, 3, 4, 1, 2, 2, 1, 0)
    # A larger epsilon than usual: few children span less than all rows, and differences need more digits.
    routing = routing_for(case, normalize_mass=True, inverse_temperature=1.0, epsilon=0.1)

    def fused(pose: Tensor, weight: Tensor, activation: Tensor, *beta: Tensor) -> tuple[Tensor, ...]:
        result = torch.func.functional_call(
            routing, dict(zip(("beta_u", "beta_a"), beta)), (case.geometry(pose, weight), activation),
            {"coupling": False},
        )  # fmt: skip
        return tuple(outputs(result))

    assert routing.fused(case.votes(), case.activation) is not None
    beta = [p.detach().clone().requires_grad_() for p in (routing.beta_u, routing.beta_a)]
    assert torch.autograd.gradcheck(fused, (*case.leaves(), *beta))


@pytest.mark.parametrize("children", [1, 2, 3])
def test_children_that_span_less_than_all_rows(children: int) -> None:
    """Only the ridge keeps the covariance of one or two votes from being singular."""
    case = dense_matrix(children=children, dtype=torch.float32)
    case.pose[..., :8] = 0  # two rows that never differ
    assert_forms_agree(routing_for(case), case)


@pytest.mark.parametrize("size", [1e-3, 1e3, 1e6])
def test_poses_of_any_size(size: float) -> None:
    case = conv(dtype=torch.float32)
    case.pose *= size
    assert_forms_agree(routing_for(case, inverse_temperature=0.01), case)


def test_a_cluster_far_from_the_first_vote() -> None:
    """Votes that agree around 100, and one at -100: the small variance must not be lost.

    With a third iteration, one unit in the last place of the poses already changes gradients by 2 %.
    """
    case = dense_matrix(children=90, parents=2, dtype=torch.float32)
    torch.manual_seed(1)
    case.pose[:] = 100 + 1e-3 * torch.randn_like(case.pose)
    case.pose[:, 0] = -100
    case.weight[:] = torch.eye(4)
    case.activation[:, 0] = 1e-5
    assert_forms_agree(routing_for(case, iterations=2), case)


def test_dead_children_and_parents_leave_finite_gradients() -> None:
    case = conv(dtype=torch.float32)
    case.activation[0] = 0
    assert_forms_agree(routing_for(case), case)
    assert all(grad.isfinite().all() for grad in run(routing_for(case), case, fused=True)[1])


def test_a_change_of_viewpoint_moves_the_poses_and_nothing_else() -> None:
    """The law of this covariance, of the kernel itself. It holds up to epsilon, which is small here."""
    case = dense_matrix(children=30, parents=4)
    viewpoint = torch.eye(4, dtype=torch.float64) + 0.5 * torch.randn(4, 4, dtype=torch.float64)
    routing = routing_for(case, activation="mixing", epsilon=1e-12)
    moved = (viewpoint @ case.pose.unflatten(-1, (4, 4))).flatten(-2)
    before = routing.fused(case.votes(), case.activation)
    after = routing.fused(case.geometry(moved, case.weight), case.activation)
    assert before is not None
    assert after is not None
    expected = (viewpoint @ before.pose.unflatten(-1, (4, 4))).flatten(-2)
    assert difference(after.pose, expected) < 1e-7
    assert difference(after.activation, before.activation) < 1e-7


def test_where_the_kernel_does_not_fit() -> None:
    """Similarities are 3×3 matrices, and mixing proportions of the whole layer have no kernel."""
    routing = EMRouting(3, covariance="rows")
    votes = DenseVotes(torch.randn(2, 5, 4), torch.randn(5, 3, 4), SimilarityPose())
    assert routing.fused(votes, torch.rand(2, 5)) is None
    case = dense_matrix(dtype=torch.float32)
    layer = EMRouting(3, covariance="rows", activation="mixing_layer")
    assert layer.fused(case.votes(), case.activation) is None
