from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from support.kernel_cases import Case, assert_forms_agree, outputs, run, vectors
from torchcaps.routing import DynamicRouting

OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "fixed point": {"update": "fixed_point"},
    "bias": {"bias": True, "pose_dim": 7},
    "leaky": {"leaky": True, "iterations": 4},
    "last": {"gradient": "last", "bias": True, "pose_dim": 7},
    "leaky fixed point, last": {"leaky": True, "update": "fixed_point", "gradient": "last"},
    "one": {"iterations": 1},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("shared", [False, True], ids=["dense", "shared"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_forms_agree(dtype: torch.dtype, shared: bool, options: dict[str, Any]) -> None:
    case = vectors(shared, dtype=dtype)
    assert_forms_agree(DynamicRouting(4, **options).to(dtype), case)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("size_out", [1, 16, 17])
@pytest.mark.parametrize("shared", [False, True], ids=["dense", "shared"])
def test_every_instruction_set(instruction_set: str, shared: bool, size_out: int, dtype: torch.dtype) -> None:
    # Sizes that are no multiples of 2, 8 or 16, so that every remainder loop runs.
    case = vectors(shared, batch=71, children=13, size_out=size_out, dtype=dtype)
    assert_forms_agree(DynamicRouting(4), case)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    shared=st.booleans(), batch=st.integers(1, 10), children=st.integers(1, 10), parents=st.integers(1, 20),
    size_in=st.integers(1, 9), size_out=st.integers(1, 20), double=st.booleans(), accumulate=st.booleans(),
    leaky=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_shape(
    shared: bool, batch: int, children: int, parents: int, size_in: int, size_out: int, double: bool,
    accumulate: bool, leaky: bool, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    dtype = torch.float64 if double else torch.float32
    case = vectors(shared, batch, children, parents, size_in, size_out, dtype)
    routing = DynamicRouting(update="accumulate" if accumulate else "fixed_point", leaky=leaky)
    assert_forms_agree(routing, case)


def test_one_bias_for_all_types() -> None:
    assert_forms_agree(DynamicRouting(bias=True, pose_dim=7).double(), vectors())


def test_inputs_need_not_be_contiguous() -> None:
    case = vectors(dtype=torch.float32)
    transposed = Case(
        case.pose.transpose(0, 2).contiguous().transpose(0, 2),
        case.weight.transpose(-1, -2).contiguous().transpose(-1, -2),
        case.activation,
        case.geometry,
    )
    for kind in (0, 1):
        pairs = zip(*(run(DynamicRouting(), c, fused=True)[kind] for c in (transposed, case)))
        assert all(torch.equal(actual, expected) for actual, expected in pairs)


@pytest.mark.parametrize("shared", [False, True], ids=["dense", "shared"])
@pytest.mark.parametrize("update", ["accumulate", "fixed_point"])
def test_gradients_by_finite_differences(shared: bool, update: str) -> None:
    case = vectors(shared, children=3, parents=2, size_in=2, size_out=3)
    routing = DynamicRouting(update=update)

    def fused(pose: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        return tuple(outputs(routing(case.geometry(pose, weight), case.activation, coupling=False)))

    assert torch.autograd.gradcheck(fused, case.leaves()[:2])


def test_other_squashes_use_the_plain_form() -> None:
    case = vectors()
    assert DynamicRouting(squash="tanh").fused(case.votes(), case.activation) is None
