"""Checks of the arguments of the operators, with messages for users.

The compiled part checks sizes and types again before it reads memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchcaps._checks import check_count, check_tensor

# EM routing is for matrix poses of SIDE × SIDE.
SIDE = 4

# The compiled part numbers votes by 32-bit integers.
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
    check_mixture(pose, activation, weight, index, offset, len(temperatures))
    if (beta_u is None) != (beta_a is None):
        raise ValueError("beta_u and beta_a must both be tensors or both be None, got one tensor")
    for name, beta in (("beta_u", beta_u), ("beta_a", beta_a)):
        if beta is not None:
            check_tensor(name, beta, "J", J=weight.shape[1])
    check_types(pose, activation=activation, weight=weight, beta_u=beta_u, beta_a=beta_a, offset=offset)


def check_heinsen(
    pose: Tensor,
    activation: Tensor,
    weight: Tensor,
    beta_use: Tensor,
    beta_ignore: Tensor,
    bias: Tensor | None,
    index: Tensor | None,
    offset: Tensor | None,
    iterations: int,
) -> None:
    """Check the arguments that `heinsen_forward` and `heinsen_backward` have in common.

    Shape: as for `check_em`, but beta `[rows, J]`; bias `[rows, J, 16]`.
    """
    check_mixture(pose, activation, weight, index, offset, iterations)
    rows, parents = weight.shape[:2]
    check_tensor("beta_use", beta_use, "rows J", rows=rows, J=parents)
    check_tensor("beta_ignore", beta_ignore, "rows J", rows=rows, J=parents)
    if bias is not None:
        check_tensor("bias", bias, "rows J D", rows=rows, J=parents, D=pose.shape[2])
    check_types(
        pose, activation=activation, weight=weight, beta_use=beta_use, beta_ignore=beta_ignore, bias=bias,
        offset=offset,
    )  # fmt: skip


def check_mixture(
    pose: Tensor,
    activation: Tensor,
    weight: Tensor,
    index: Tensor | None,
    offset: Tensor | None,
    iterations: int,
) -> None:
    """Check the arguments that EM and Heinsen routing have in common; not the types of numbers."""
    check_tensor("pose", pose, "B N D", D=SIDE**2)
    batch, children = pose.shape[:2]
    check_tensor("activation", activation, "B N", B=batch, N=children)
    check_tensor("weight", weight, "rows J side side_out", side=SIDE, side_out=SIDE)
    rows = check_count("rows of weight", weight.shape[0])
    check_count("parents of weight", weight.shape[1])
    places = children
    if index is not None:
        places = check_index(index)
    if places % rows:
        raise ValueError(f"weight must have a number of rows that divides {places} places, got {rows}")
    if offset is not None:
        check_tensor("offset", offset, "places D", places=-(-children // rows), D=SIDE**2)
    check_count("iterations", iterations)
    check_device("index", index, pose)


def check_index(index: Tensor) -> int:
    """Check the table of children per place `[P, I]`, and return the number of places I.

    The compiled part checks its entries when it inverts it, once per geometry.
    """
    if index.ndim != 2 or index.dtype != torch.int64:
        raise ValueError(f"index must be [P, I] of torch.int64, got {list(index.shape)} of {index.dtype}")
    if index.numel() > MOST_VOTES:
        raise ValueError(f"index must have at most {MOST_VOTES} entries, got {index.numel()}")
    return check_count("places of index", index.shape[1])


def check_dynamic(
    pose: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor | None, shared: bool, iterations: int
) -> None:
    """Check the arguments that `dynamic_forward` and `dynamic_backward` have in common.

    Shape: pose `[B, N, D_in]`, weight `[N or 1, J, D_in, D]`, bias `[J, D]`; with an index `[P, I]`, which is
    for GPUs only, weight `[I, J, D_in, D]`.
    """
    check_tensor("pose", pose, "B N D_in")
    if index is None:
        rows = 1 if shared else pose.shape[1]
    elif pose.is_cpu:
        raise ValueError("index must be None on the CPU, whose kernel is for one position")
    else:
        rows = check_index(index)
        check_device("index", index, pose)
    check_tensor("weight", weight, "rows J D_in D", rows=rows, D_in=pose.shape[2])
    check_count("parents of weight", weight.shape[1])
    check_count("numbers in a vote", weight.shape[3])
    if bias is not None:
        check_tensor("bias", bias, "J D", J=weight.shape[1], D=weight.shape[3])
    check_count("iterations", iterations)
    check_types(pose, weight=weight, bias=bias)


def check_types(pose: Tensor, **others: Tensor | None) -> None:
    """Check that all tensors are on one device and of one type that its kernels support."""
    if pose.is_cuda:
        if pose.dtype != torch.float32:
            raise ValueError(f"pose must be torch.float32 on a GPU, got {pose.dtype}")
    elif pose.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"pose must be torch.float32 or torch.float64, got {pose.dtype}")
    elif not pose.is_cpu:
        raise ValueError(f"pose must be on the CPU or a GPU, got {pose.device}")
    for name, value in others.items():
        if value is not None and value.dtype != pose.dtype:
            raise ValueError(f"{name} must be {pose.dtype} like the pose, got {value.dtype}")
        check_device(name, value, pose)


def check_device(name: str, value: Tensor | None, pose: Tensor) -> None:
    """Check that a tensor, unless it is `None`, is where the pose is."""
    if value is not None and value.device != pose.device:
        raise ValueError(f"{name} must be on {pose.device} like the pose, got {value.device}")


def check_like(
    names: Sequence[str], tensors: Sequence[Tensor], shapes: Sequence[Sequence[int]], pose: Tensor
) -> None:
    """Check that tensors have these shapes, and the type and the device of the pose."""
    for name, tensor, shape in zip(names, tensors, shapes):
        if tensor.shape != shape or tensor.dtype != pose.dtype:
            got = f"{list(tensor.shape)} of {tensor.dtype}"
            raise ValueError(f"{name} must be {list(shape)} of {pose.dtype}, got {got}")
        check_device(name, tensor, pose)
