"""The operators called with wrong arguments: an error each time, before memory is read."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from support.kernel_cases import conv, dense_matrix, vectors

ops = torch.ops.torchcaps


def em_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    case = conv(dtype=dtype)
    votes = case.votes()
    beta = [torch.randn(votes.parents, dtype=dtype) for _ in range(2)]
    return [votes.pose, case.activation, votes.weight, *beta, votes.index, None, [0.1, 0.2], 1.0, 1e-6]


def em_backward_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    arguments = em_arguments(dtype)
    return [*ops.em_forward(*arguments), *arguments]


def em_rows_arguments(dtype: torch.dtype = torch.float64) -> list[Any]:
    return [*em_arguments(dtype), True]


def em_rows_backward_arguments(dtype: torch.dtype = torch.float64) -> list[Any]:
    arguments = em_rows_arguments(dtype)
    return [*ops.em_rows_forward(*arguments), *arguments]


def heinsen_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    pose, activation, weight, _, _, index, *_ = em_arguments(dtype)
    beta = [torch.randn(weight.shape[:2], dtype=dtype) for _ in range(2)]
    bias = torch.randn(*weight.shape[:2], 16, dtype=dtype)
    return [pose, activation, weight, *beta, bias, index, None, 2, 1e-5]


def heinsen_backward_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    arguments = heinsen_arguments(dtype)
    return [*ops.heinsen_forward(*arguments), *arguments]


def dynamic_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    case = vectors(dtype=dtype)
    return [case.pose, case.weight, torch.randn(4, 7, dtype=dtype), None, False, 3, True, False, True]


def dynamic_backward_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    arguments = dynamic_arguments(dtype)
    return [*ops.dynamic_forward(*arguments), *arguments]


OPERATORS = {
    "em_forward": em_arguments,
    "em_backward": em_backward_arguments,
    "em_rows_forward": em_rows_arguments,
    "em_rows_backward": em_rows_backward_arguments,
    "heinsen_forward": heinsen_arguments,
    "heinsen_backward": heinsen_backward_arguments,
    "dynamic_forward": dynamic_arguments,
    "dynamic_backward": dynamic_backward_arguments,
}


def test_weights_of_too_few_children() -> None:
    with pytest.raises(ValueError, match=r"weight must be \[rows=60000, J, D_in=8, D\], got \[1, 3, 8, 16\]"):
        ops.dynamic_forward(
            torch.randn(2, 60000, 8), torch.randn(1, 3, 8, 16), None, None, False, 3, True, False, True
        )


def test_one_beta_without_the_other() -> None:
    arguments = em_arguments()
    arguments[4] = None
    with pytest.raises(ValueError, match="beta_u and beta_a must both be"):
        ops.em_forward(*arguments)


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (3, r"beta_use must be \[rows=27, J=4\], got \[4\]"),
        (4, r"beta_ignore must be \[rows=27, J=4\], got \[4\]"),
        (5, r"bias must be \[rows=27, J=4, D=16\], got \[4, 16\]"),
    ],
)
def test_one_row_for_all(position: int, message: str) -> None:
    arguments = heinsen_arguments()
    arguments[position] = arguments[position][0]
    with pytest.raises(ValueError, match=message):
        ops.heinsen_forward(*arguments)


def test_no_iterations() -> None:
    arguments = heinsen_arguments()
    arguments[-2] = 0
    with pytest.raises(ValueError, match="iterations must be"):
        ops.heinsen_forward(*arguments)


@pytest.mark.parametrize("entry", [-1, 91, 2**40])
def test_index_out_of_range(entry: int) -> None:
    arguments = em_arguments()
    arguments[5] = arguments[5].clone()
    arguments[5][0, 0] = entry
    with pytest.raises(ValueError, match="index must be from 0 to 90"):
        ops.em_forward(*arguments)


def test_rows_that_do_not_divide_the_places() -> None:
    case = dense_matrix(children=7, dtype=torch.float32)
    with pytest.raises(ValueError, match="divides 7 places, got 3"):
        ops.em_forward(case.pose, case.activation, case.weight[:3], None, None, None, None, [0.1], 1.0, 1e-6)


def test_offset_of_too_few_places() -> None:
    arguments = em_arguments()
    arguments[5], arguments[2], arguments[6] = None, arguments[2][:3], torch.zeros(2, 16)
    with pytest.raises(ValueError, match=r"offset must be \[places=30, D=16\], got \[2, 16\]"):
        ops.em_forward(*arguments)


@pytest.mark.parametrize("name", OPERATORS)
def test_mixed_types(name: str) -> None:
    for k, value in enumerate(OPERATORS[name]()):
        if isinstance(value, Tensor) and value.is_floating_point():
            arguments = OPERATORS[name]()
            arguments[k] = value.float() if value.dtype == torch.float64 else value.double()
            with pytest.raises(ValueError, match=r"must be.*float"):
                getattr(ops, name)(*arguments)


def test_a_covariance_of_rows_needs_float64() -> None:
    with pytest.raises(ValueError, match=r"pose must be float64, got torch\.float32: use pose\.double"):
        ops.em_rows_forward(*em_rows_arguments(torch.float32))


@pytest.mark.parametrize("name", OPERATORS)
def test_half_precision(name: str) -> None:
    arguments = [
        t.half() if isinstance(t, Tensor) and t.is_floating_point() else t for t in OPERATORS[name]()
    ]
    with pytest.raises(ValueError, match=r"float32 or torch\.float64, got torch\.float16"):
        getattr(ops, name)(*arguments)


def corrupt(value: Tensor, rng: random.Random) -> Tensor:
    """The tensor with another shape, number of dimensions, or type."""
    kind = rng.choice(["longer", "shorter", "empty", "flat", "more", "type"])
    if kind == "flat":
        return value.flatten()
    if kind == "more":
        return value.unsqueeze(rng.randrange(value.ndim + 1))
    if kind == "type":
        return value.to(rng.choice([torch.float64, torch.int32, torch.bfloat16]))
    d = rng.randrange(value.ndim)
    if kind == "longer":
        return torch.cat([value, value.narrow(d, 0, 1)], d)
    return value.narrow(d, 0, 0 if kind == "empty" else value.shape[d] // 2)


@pytest.mark.parametrize("name", OPERATORS)
def test_any_wrong_argument(name: str) -> None:
    """One to three wrong arguments: an error, or a result if they happen to fit together."""
    errors = results = 0
    for seed in range(150):
        torch.manual_seed(seed)
        rng = random.Random(seed)
        arguments = OPERATORS[name]()
        tensors = [k for k, value in enumerate(arguments) if isinstance(value, Tensor)]
        for k in rng.sample(tensors, rng.randint(1, min(3, len(tensors)))):
            arguments[k] = corrupt(arguments[k], rng)
        try:
            outputs = getattr(ops, name)(*arguments)
        except (ValueError, RuntimeError) as error:
            errors += "must" in str(error)  # other messages are not clear enough
        else:
            results += all(isinstance(out, Tensor) for out in outputs)
    assert errors + results == 150
    assert errors > 100
