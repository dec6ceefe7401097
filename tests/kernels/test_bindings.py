"""The compiled functions called directly: every tensor is checked against its name before memory is read."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import Tensor

from support.kernel_cases import conv, vectors
from torchcaps.kernels import dispatch, dynamic, em, em_rows, heinsen

TEMPERATURES = [0.1, 0.2]


def em_forward(dtype: torch.dtype = torch.float32) -> tuple[dict[str, Tensor | None], dict[str, object]]:
    case = conv(dtype=dtype)
    votes = case.votes()
    beta_u, beta_a = torch.randn(2, votes.parents, dtype=dtype)
    tensors = em.inputs(votes.pose, case.activation, votes.weight, beta_u, beta_a.clone(), votes.index, None)
    outputs = em.empty_outputs(votes.pose, votes.weight, votes.index, len(TEMPERATURES))
    names = ("out_pose", "out_activation", "out_logit", "statistics")
    options = {"temperatures": TEMPERATURES, "mass_scale": 1.0, "epsilon": 1e-6}
    return tensors | dict(zip(names, outputs)), options


def em_rows_forward() -> tuple[dict[str, Tensor | None], dict[str, object]]:
    tensors, options = em_forward(torch.float64)
    pose, weight = tensors["pose"], tensors["weight"]
    assert pose is not None
    assert weight is not None
    shapes = em_rows.rows_shapes(pose, weight, tensors["index"], len(TEMPERATURES))
    return tensors | {"statistics": pose.new_empty(shapes[-1])}, options | {"single": True}


def em_rows_backward() -> tuple[dict[str, Tensor | None], dict[str, object]]:
    return em_gradients("em_rows_forward", *em_rows_forward())


def em_backward() -> tuple[dict[str, Tensor | None], dict[str, object]]:
    return em_gradients("em_forward", *em_forward())


def em_gradients(
    forward: str, tensors: dict[str, Tensor | None], options: dict[str, object]
) -> tuple[dict[str, Tensor | None], dict[str, object]]:
    """The arguments of a backward pass, from those of the forward pass, which is run."""
    call(forward, tensors, options)
    for name in ("out_pose", "out_activation", "out_logit"):
        tensors[f"grad_{name}"] = tensors.pop(name)
    for name in ("pose", "activation", "weight", "beta_u", "beta_a"):
        value = tensors[name]
        assert value is not None
        tensors[f"grad_{name}"] = torch.empty_like(value)
    return tensors, options


def heinsen_forward() -> tuple[dict[str, Tensor | None], dict[str, object]]:
    case = conv(dtype=torch.float32)
    votes = case.votes()
    beta_use, beta_ignore = (torch.randn(votes.weight.shape[:2]) for _ in range(2))
    bias = torch.randn(*votes.weight.shape[:2], 16)
    tensors = heinsen.inputs(
        votes.pose, case.activation, votes.weight, beta_use, beta_ignore, bias, votes.index, None
    )
    outputs = em.empty_outputs(votes.pose, votes.weight, votes.index, 3)
    names = ("out_pose", "out_activation", "out_logit", "statistics")
    return tensors | dict(zip(names, outputs)), {"iterations": 3, "epsilon": 1e-5}


def heinsen_backward() -> tuple[dict[str, Tensor | None], dict[str, object]]:
    tensors, options = heinsen_forward()
    call("heinsen_forward", tensors, options)
    for name in ("out_pose", "out_activation", "out_logit"):
        tensors[f"grad_{name}"] = tensors.pop(name)
    for name in ("pose", "activation", "weight", "beta_use", "beta_ignore", "bias"):
        value = tensors[name]
        assert value is not None
        tensors[f"grad_{name}"] = torch.empty_like(value)
    return tensors, options


def dynamic_forward() -> tuple[dict[str, Tensor | None], dict[str, object]]:
    case = vectors(dtype=torch.float32)
    out_pose, totals = dynamic.empty_outputs(case.pose, case.weight, 3)
    tensors: dict[str, Tensor | None] = {"pose": case.pose, "weight": case.weight, "bias": torch.randn(4, 7)}
    options: dict[str, object] = {"iterations": 3, "shared": False, "accumulate": True, "leaky": False}
    options["through_all"] = True
    return tensors | {"out_pose": out_pose, "totals": totals}, options


def dynamic_backward() -> tuple[dict[str, Tensor | None], dict[str, object]]:
    tensors, options = dynamic_forward()
    call("dynamic_forward", tensors, options)
    tensors["grad_out_pose"] = tensors.pop("out_pose")
    for name in ("pose", "weight", "bias"):
        value = tensors[name]
        assert value is not None
        tensors[f"grad_{name}"] = torch.empty_like(value)
    return tensors, options


FUNCTIONS = {
    "em_forward": em_forward,
    "em_backward": em_backward,
    "em_rows_forward": em_rows_forward,
    "em_rows_backward": em_rows_backward,
    "heinsen_forward": heinsen_forward,
    "heinsen_backward": heinsen_backward,
    "dynamic_forward": dynamic_forward,
    "dynamic_backward": dynamic_backward,
}
each_function = pytest.mark.parametrize("name", FUNCTIONS)


def call(name: str, tensors: dict[str, Tensor | None], options: dict[str, object]) -> None:
    dispatch.call(name, tensors, {}, **options)


@each_function
def test_every_tensor_is_checked(name: str) -> None:
    """Another size, another type, or None: the error names the argument."""
    tensors, options = FUNCTIONS[name]()
    call(name, tensors, options)
    for argument, value in tensors.items():
        if value is None:
            continue
        other = value.float() if value.dtype == torch.float64 else value.double()
        for wrong in (value[:-1], value.unsqueeze(0), other):
            with pytest.raises(ValueError, match=r"must (be|have)"):
                call(name, tensors | {argument: wrong}, options)
        if argument not in ("beta_u", "beta_a", "index", "bias", "grad_bias"):
            with pytest.raises(ValueError, match=f"{argument} must .* got None"):
                call(name, tensors | {argument: None}, options)


@each_function
def test_swapped_tensors_are_an_error(name: str) -> None:
    tensors, options = FUNCTIONS[name]()
    pairs = 0
    for first, second in combinations(tensors, 2):
        a, b = tensors[first], tensors[second]
        if a is not None and b is not None and a.shape != b.shape:
            pairs += 1
            with pytest.raises(ValueError, match=r"must (be|have)"):
                call(name, tensors | {first: b, second: a}, options)
    assert pairs >= 7


def test_the_error_names_the_argument_and_both_sizes() -> None:
    tensors, options = em_forward()
    with pytest.raises(
        ValueError, match=r"activation must be \[2, 90\] of float32, got \[2, 89\] of float32"
    ):
        call("em_forward", tensors | {"activation": torch.rand(2, 89)}, options)


@pytest.mark.parametrize("missing", ["bias", "grad_bias"])
def test_a_bias_without_its_gradient(missing: str) -> None:
    tensors, options = heinsen_backward()
    with pytest.raises(ValueError, match="bias and grad_bias must both be"):
        call("heinsen_backward", tensors | {missing: None}, options)


@each_function
def test_arguments_have_names(name: str) -> None:
    with pytest.raises(TypeError):
        getattr(dispatch.compiled(), name)(None, None, None)


def test_memory_that_is_not_aligned_is_an_error() -> None:
    tensors, options = em_forward()
    statistics = tensors.pop("statistics")
    assert statistics is not None
    shifted = torch.empty(statistics.numel() + 1)[1:].view(statistics.shape)
    with pytest.raises(ValueError, match="statistics must be aligned"):
        dispatch.call("em_forward", tensors, {"statistics": shifted}, **options)


def test_unknown_instruction_set() -> None:
    with pytest.raises(ValueError, match=r"must be one of .*baseline on this processor, got mmx"):
        dispatch.compiled().use("mmx")
