"""Dynamic routing by Triton kernels: values and gradients against the plain form in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.kernel_cases import Case, assert_forms_agree, vectors
from torchcaps.kernels.triton import dynamic
from torchcaps.routing import DynamicRouting
from torchcaps.votes import ConvVotes

OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "fixed point": {"update": "fixed_point"},
    "bias": {"bias": True, "pose_dim": 7},
    "leaky": {"leaky": True, "iterations": 4},
    "last": {"gradient": "last", "bias": True, "pose_dim": 7},
    "leaky fixed point, last": {"leaky": True, "update": "fixed_point", "gradient": "last"},
    "one": {"iterations": 1},
}


def conv_vectors(
    batch: int = 2, height: int = 4, width: int = 3, types: int = 1, parents: int = 4, kernel_size: int = 2,
    stride: int = 1, padding: int = 1, size_in: int = 5, size_out: int = 7,
    dtype: torch.dtype = torch.float32,
) -> Case:  # fmt: skip
    return Case(
        torch.randn(batch, height, width, types, size_in, dtype=dtype),
        0.5 * torch.randn(kernel_size**2 * types, parents, size_in, size_out, dtype=dtype),
        torch.rand(batch, height * width * types, dtype=dtype),
        lambda pose, weight: ConvVotes(pose, weight, kernel_size=kernel_size, stride=stride, padding=padding),
    )


CASES: dict[str, Callable[..., Case]] = {
    "dense": vectors,
    "shared": lambda **sizes: vectors(True, **sizes),
    "conv": conv_vectors,
}


@pytest.mark.parametrize(
    ("geometry", "options"),
    [("dense", "paper"), ("conv", "fixed point")],
)
def test_forms_agree(geometry: str, options: str) -> None:
    case = CASES[geometry](dtype=torch.float32)
    assert_forms_agree(DynamicRouting(4, **OPTIONS[options]), case)


@pytest.mark.usefixtures("small_blocks")
def test_several_blocks_and_splits() -> None:
    case = CASES["dense"](batch=1, children=9, parents=3, size_in=5, dtype=torch.float32)
    assert_forms_agree(DynamicRouting(3, iterations=2), case)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)], ids=str
)
def test_half_precision_is_read_and_computed_in_float32(dtype: torch.dtype) -> None:
    case = vectors(dtype=torch.float32)
    halves = [case.pose.to(dtype), case.weight.to(dtype)]
    options = (None, None, False, 2, True, False, True)
    half = dynamic.dynamic_forward(*halves, *options)
    single = dynamic.dynamic_forward(*(t.float() for t in halves), *options)
    assert torch.equal(half[0], single[0])
    grads = dynamic.dynamic_backward(*half, *halves, *options)
    wide = dynamic.dynamic_backward(*single, *(t.float() for t in halves), *options)
    assert [g.dtype for g in grads] == [dtype] * 3
    assert all(torch.equal(a, b.to(dtype)) for a, b in zip(grads, wide))


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_forms_agree_everywhere(make: Callable[..., Case], options: dict[str, Any]) -> None:
    assert_forms_agree(DynamicRouting(4, **options), make(dtype=torch.float32))


@pytest.mark.slow
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    geometry=st.sampled_from(list(CASES)), batch=st.integers(1, 10), size=st.integers(1, 10),
    parents=st.integers(1, 20), size_in=st.integers(1, 9), size_out=st.integers(1, 20),
    accumulate=st.booleans(), leaky=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_shape(
    geometry: str, batch: int, size: int, parents: int, size_in: int, size_out: int, accumulate: bool,
    leaky: bool, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    sizes = {"batch": batch, "parents": parents, "size_in": size_in, "size_out": size_out}
    sizes |= {"height": size} if geometry == "conv" else {"children": size}
    case = CASES[geometry](**sizes, dtype=torch.float32)
    routing = DynamicRouting(update="accumulate" if accumulate else "fixed_point", leaky=leaky)
    assert_forms_agree(routing, case)
