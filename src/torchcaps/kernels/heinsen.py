"""Heinsen routing as a fused operator: 4×4 matrix poses, any geometry, with or without a bias per row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.kernels import dispatch
from torchcaps.kernels.arguments import check_heinsen, check_like
from torchcaps.kernels.em import empty_outputs, offset_of, output_shapes, supports
from torchcaps.votes import Votes

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def route(
    votes: Votes,
    activation: Tensor,
    beta_use: Tensor,
    beta_ignore: Tensor,
    bias: Tensor | None,
    *,
    iterations: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Pose `[B, P, J, 16]`, activation and logit `[B, P, J]`; `None` where the kernel does not fit.

    Args:
        votes: votes of 4×4 matrix poses.
        activation: activation of the children, `[B, N]`.
        beta_use: weight of what a parent uses of a child, `[rows, J]`, or `[J]` for all rows; J may be 1.
        beta_ignore: the same for what it ignores.
        bias: added to the votes of each row, `[rows, J, 16]`; J may be 1.
        iterations: number of iterations.
        epsilon: added to every variance.
    """
    if not supports(votes, activation, beta_use, beta_ignore, bias):
        return None
    if votes.pose.device.type != "cpu":
        dispatch.plain_on_gpu("Heinsen routing has a kernel for the CPU only")
        return None
    weight = votes.weight if votes.weight.ndim == 4 else votes.weight.unsqueeze(0)
    rows, parents = weight.shape[:2]
    out_pose, out_activation, logit, _ = heinsen_forward(
        votes.pose,
        activation,
        weight,
        beta_use.expand(rows, parents),
        beta_ignore.expand(rows, parents),
        None if bias is None else bias.expand(rows, parents, votes.pose_dim),
        votes.index,
        offset_of(votes),
        iterations,
        epsilon,
    )
    return out_pose, out_activation, logit


@torch.library.custom_op("torchcaps::heinsen_forward", mutates_args=())
def heinsen_forward(
    pose: Tensor,
    activation: Tensor,
    weight: Tensor,
    beta_use: Tensor,
    beta_ignore: Tensor,
    bias: Tensor | None,
    index: Tensor | None,
    offset: Tensor | None,
    iterations: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pose, activation and logit of the parents, and the statistics of all iterations for the backward pass.

    Shape: pose `[B, N, 16]`, activation `[B, N]`, weight `[rows, J, 4, 4]`, beta `[rows, J]`,
    bias `[rows, J, 16]`, index `[P, I]`, offset `[places, 16]`.
    """
    check_heinsen(pose, activation, weight, beta_use, beta_ignore, bias, index, offset, iterations)
    outputs = empty_outputs(pose, weight, index, iterations)
    dispatch.call(
        "heinsen_forward",
        inputs(pose, activation, weight, beta_use, beta_ignore, bias, index, offset),
        dict(zip(("out_pose", "out_activation", "out_logit", "statistics"), outputs)),
        iterations=iterations, epsilon=epsilon,
    )  # fmt: skip
    return outputs


@heinsen_forward.register_fake
def _(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_use: Tensor, beta_ignore: Tensor, bias: Any,
    index: Any, offset: Any, iterations: int, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return empty_outputs(pose, weight, index, iterations)


@torch.library.custom_op("torchcaps::heinsen_backward", mutates_args=())
def heinsen_backward(
    grad_pose: Tensor,
    grad_activation: Tensor,
    grad_logit: Tensor,
    statistics: Tensor,
    pose: Tensor,
    activation: Tensor,
    weight: Tensor,
    beta_use: Tensor,
    beta_ignore: Tensor,
    bias: Tensor | None,
    index: Tensor | None,
    offset: Tensor | None,
    iterations: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of pose, activation, weight, both betas and the bias (empty if there is none)."""
    check_heinsen(pose, activation, weight, beta_use, beta_ignore, bias, index, offset, iterations)
    names = ("grad_pose", "grad_activation", "grad_logit", "statistics")
    given = (grad_pose, grad_activation, grad_logit, statistics)
    check_like(names, given, output_shapes(pose, weight, index, iterations), pose)
    gradients = empty_gradients(pose, activation, weight, beta_use, beta_ignore, bias)
    *others, grad_bias = gradients
    outputs = dict(
        zip(("grad_pose", "grad_activation", "grad_weight", "grad_beta_use", "grad_beta_ignore"), others)
    )
    dispatch.call(
        "heinsen_backward",
        inputs(pose, activation, weight, beta_use, beta_ignore, bias, index, offset)
        | dict(zip(("grad_out_pose", "grad_out_activation", "grad_out_logit", "statistics"), given))
        | {"grad_bias": None},
        outputs if bias is None else outputs | {"grad_bias": grad_bias},
        iterations=iterations, epsilon=epsilon,
    )  # fmt: skip
    return gradients


@heinsen_backward.register_fake
def _(
    grad_pose: Tensor, grad_activation: Tensor, grad_logit: Tensor, statistics: Tensor, pose: Tensor,
    activation: Tensor, weight: Tensor, beta_use: Tensor, beta_ignore: Tensor, bias: Any, *options: Any,
) -> Gradients:  # fmt: skip
    return empty_gradients(pose, activation, weight, beta_use, beta_ignore, bias)


dispatch.register_backward(heinsen_forward, heinsen_backward, tensors=8)


def inputs(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_use: Tensor, beta_ignore: Tensor,
    bias: Tensor | None, index: Tensor | None, offset: Tensor | None,
) -> dict[str, Tensor | None]:  # fmt: skip
    """The inputs by the names that the compiled functions have for them."""
    return {
        "pose": pose, "activation": activation, "weight": weight, "beta_use": beta_use,
        "beta_ignore": beta_ignore, "bias": bias, "index": index, "offset": offset,
    }  # fmt: skip


def empty_gradients(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_use: Tensor, beta_ignore: Tensor,
    bias: Tensor | None,
) -> Gradients:  # fmt: skip
    """Uninitialized outputs of `heinsen_backward`."""
    return (
        pose.new_empty(pose.shape),
        activation.new_empty(activation.shape),
        weight.new_empty(weight.shape),
        beta_use.new_empty(beta_use.shape),
        beta_ignore.new_empty(beta_ignore.shape),
        weight.new_empty(0) if bias is None else bias.new_empty(bias.shape),
    )
