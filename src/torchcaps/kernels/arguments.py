"""Checks of what the operators are given: the compiled part trusts shapes and types."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchcaps._checks import check_count, check_tensor

SIDE = 4
# The compiled part counts votes in 32 bits.
MOST_VOTES = 2**31 - 1


def check_em(
    pose: Tensor,
    activation: Tensor,
    weight: Tensor,
    beta_u: Tensor | None,
    beta_a: Tensor | None,
    index: Tensor | None,
    offset: Tensor | None,
    temperatures: Sequence[float],
) -> None:
    """Check the arguments that `em_forward` and `em_backward` have in common.

    Shape: pose `[B, N, 16]`, activation `[B, N]`, weight `[rows, J, 4, 4]`, beta `[J]`, index `[P, I]`,
    offset `[places, 16]`.
    """
    check_tensor("pose", pose, "B N D", D=SIDE * SIDE)
    batch, children = pose.shape[:2]
    check_tensor("activation", activation, "B N", B=batch, N=children)
    check_tensor("weight", weight, "rows J side side_out", side=SIDE, side_out=SIDE)
    rows, parents = weight.shape[:2]
    check_count("rows of weight", rows)
    check_count("parents of weight", parents)
    if (beta_u is None) != (beta_a is None):
        raise ValueError("beta_u and beta_a must be given both or not at all, got one of them")
    for name, beta in (("beta_u", beta_u), ("beta_a", beta_a)):
        if beta is not None:
            check_tensor(name, beta, "J", J=parents)
    places = children
    if index is not None:
        places = check_index(index, children)
    if places % rows:
        raise ValueError(f"weight must have a number of rows that divides {places} places, got {rows}")
    if offset is not None:
        check_tensor("offset", offset, "places D", places=-(-children // rows), D=SIDE * SIDE)
    check_count("iterations (temperatures)", len(temperatures))
    check_types(pose, activation=activation, weight=weight, beta_u=beta_u, beta_a=beta_a, offset=offset)
    check_cpu("index", index)


def check_index(index: Tensor, children: int) -> int:
    """Check the table of children per place `[P, I]`, and return the number of places I."""
    if index.ndim != 2 or index.dtype != torch.int64:
        raise ValueError(f"index must be [P, I] of torch.int64, got {list(index.shape)} of {index.dtype}")
    check_cpu("index", index)
    if index.numel() > MOST_VOTES:
        raise ValueError(f"index must have at most {MOST_VOTES} entries, got {index.numel()}")
    check_count("places of index", index.shape[1])
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) <= children:
        raise ValueError(
            f"index must be from 0 to {children} (no child), got {int(index.min())} to {int(index.max())}"
        )
    return index.shape[1]


def check_dynamic(pose: Tensor, weight: Tensor, bias: Tensor | None, shared: bool, iterations: int) -> None:
    """Check the arguments that `dynamic_forward` and `dynamic_backward` have in common.

    Shape: pose `[B, N, D_in]`, weight `[N or 1, J, D_in, D]`, bias `[J, D]`.
    """
    check_tensor("pose", pose, "B N D_in")
    rows = 1 if shared else pose.shape[1]
    check_tensor("weight", weight, "rows J D_in D", rows=rows, D_in=pose.shape[2])
    check_count("parents of weight", weight.shape[1])
    check_count("numbers in a vote", weight.shape[3])
    if bias is not None:
        check_tensor("bias", bias, "J D", J=weight.shape[1], D=weight.shape[3])
    check_count("iterations", iterations)
    check_types(pose, weight=weight, bias=bias)


def check_types(pose: Tensor, **others: Tensor | None) -> None:
    """Check that all tensors are on the CPU and of one type that kernels exist for."""
    if pose.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"pose must be torch.float32 or torch.float64, got {pose.dtype}")
    check_cpu("pose", pose)
    for name, value in others.items():
        if value is not None and value.dtype != pose.dtype:
            raise ValueError(f"{name} must be {pose.dtype} as the pose is, got {value.dtype}")
        check_cpu(name, value)


def check_cpu(name: str, value: Tensor | None) -> None:
    """Check that a tensor, if there is one, is on the CPU."""
    if value is not None and value.device.type != "cpu":
        raise ValueError(f"{name} must be on the CPU, got {value.device}")


def check_shapes_of(names: Sequence[str], given: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """Check that tensors (gradients, and what the forward pass kept) have the shape and type of others."""
    for name, value, other in zip(names, given, wanted):
        if value.shape != other.shape or value.dtype != other.dtype:
            expected, got = (f"{list(t.shape)} of {t.dtype}" for t in (other, value))
            raise ValueError(f"{name} must be {expected}, got {got}")
        check_cpu(name, value)
