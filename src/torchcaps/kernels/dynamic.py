"""Dynamic routing as a fused operator: vector poses, dense or shared votes, the paper's squash."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.kernels import dispatch
from torchcaps.kernels.arguments import check_dynamic, check_shapes_of
from torchcaps.poses import VectorPose
from torchcaps.votes import DenseVotes, SharedVotes, Votes

# The votes that the kernel casts as they do. A subclass may cast others, so it takes the plain form.
GEOMETRIES = (DenseVotes, SharedVotes)


def route(
    votes: Votes,
    bias: Tensor | None,
    *,
    iterations: int,
    accumulate: bool,
    leaky: bool,
    through_all: bool,
) -> Tensor | None:
    """Pose `[B, 1, J, D]`; `None` where the kernel does not fit.

    Args:
        votes: of vector poses, dense or shared.
        bias: added before the squash, `[J, D]` or `[1, D]`.
        iterations: how many times parents are computed.
        accumulate: the paper's update of the logits, rather than the fixed-point form.
        leaky: let a child choose none of the parents.
        through_all: gradients through all iterations, rather than the last.
    """
    weight = votes.weight
    if (
        type(votes) not in GEOMETRIES
        or type(votes.space) is not VectorPose
        or not dispatch.fits(votes.pose, weight, bias)
    ):
        return None
    if bias is not None:
        bias = bias.expand(votes.parents, votes.pose_dim)
    pose, _ = dynamic_forward(
        votes.pose, weight if weight.ndim == 4 else weight.unsqueeze(0), bias, type(votes) is SharedVotes,
        iterations, accumulate, leaky, through_all,
    )  # fmt: skip
    return pose.unsqueeze(1)


@torch.library.custom_op("torchcaps::dynamic_forward", mutates_args=())
def dynamic_forward(
    pose: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    shared: bool,
    iterations: int,
    accumulate: bool,
    leaky: bool,
    through_all: bool,
) -> tuple[Tensor, Tensor]:
    """Pose of the parents `[B, J, D]`, and what each squash was given, for the backward pass.

    Shape: pose `[B, N, D_in]`, weight `[N or 1, J, D_in, D]`, bias `[J, D]`.
    """
    check_dynamic(pose, weight, bias, shared, iterations)
    inputs = [dispatch.contiguous(t) for t in (pose, weight, bias)]
    outputs = empty_outputs(pose, weight, iterations)
    dispatch.function("dynamic_forward", pose.dtype)(  # type: ignore[operator]
        options(pose, weight, shared, iterations, accumulate, leaky, through_all),
        *map(dispatch.address, inputs),
        *map(dispatch.address, outputs),
    )
    return outputs


@dynamic_forward.register_fake
def _(
    pose: Tensor, weight: Tensor, bias: Any, shared: bool, iterations: int, *rest: Any
) -> tuple[Tensor, Tensor]:
    return empty_outputs(pose, weight, iterations)


@torch.library.custom_op("torchcaps::dynamic_backward", mutates_args=())
def dynamic_backward(
    grad: Tensor,
    totals: Tensor,
    pose: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    shared: bool,
    iterations: int,
    accumulate: bool,
    leaky: bool,
    through_all: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by pose, weight and bias; the last is returned also if there is no bias."""
    check_dynamic(pose, weight, bias, shared, iterations)
    check_shapes_of(
        ("grad", "totals"), (grad, totals), empty_outputs(pose.to("meta"), weight.to("meta"), iterations)
    )
    inputs = [dispatch.contiguous(t) for t in (pose, weight, bias, grad, totals)]
    outputs = empty_gradients(pose, weight)
    dispatch.function("dynamic_backward", pose.dtype)(  # type: ignore[operator]
        options(pose, weight, shared, iterations, accumulate, leaky, through_all),
        *map(dispatch.address, inputs),
        *map(dispatch.address, outputs),
    )
    return outputs


@dynamic_backward.register_fake
def _(
    grad: Tensor, totals: Tensor, pose: Tensor, weight: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return empty_gradients(pose, weight)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.options = inputs[3:]


def _gradients(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    pose, weight, bias, totals = ctx.saved_tensors
    grad_pose, grad_weight, grad_bias = dynamic_backward(grad, totals, pose, weight, bias, *ctx.options)
    return grad_pose, grad_weight, None if bias is None else grad_bias, *[None] * 5


dynamic_forward.register_autograd(_gradients, setup_context=_remember)
dynamic_backward.register_autograd(dispatch.no_second_derivative)


def options(
    pose: Tensor,
    weight: Tensor,
    shared: bool,
    iterations: int,
    accumulate: bool,
    leaky: bool,
    through_all: bool,
) -> object:
    """Sizes and options as the compiled part takes them."""
    batch, children, size_in = pose.shape
    return dispatch.native.DynamicOptions(  # type: ignore[union-attr]
        batch, children, weight.shape[1], size_in, weight.shape[3], iterations, shared, accumulate, leaky,
        through_all, dispatch.threads(),
    )  # fmt: skip


def empty_outputs(pose: Tensor, weight: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Room for what `dynamic_forward` returns; totals have room for poses of whole vectors."""
    parents, size = weight.shape[1], weight.shape[3]
    padded = (size + 15) // 16 * 16
    return (
        pose.new_empty(pose.shape[0], parents, size),
        pose.new_zeros(pose.shape[0], iterations, parents, padded),
    )


def empty_gradients(pose: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Room for what `dynamic_backward` returns."""
    return (
        pose.new_empty(pose.shape),
        weight.new_empty(weight.shape),
        weight.new_empty(weight.shape[1], weight.shape[3]),
    )
