"""Dynamic routing as a fused operator: vector poses, dense or shared votes, the paper's squash."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.kernels import dispatch
from torchcaps.kernels.arguments import check_dynamic, check_like
from torchcaps.poses import VectorPose
from torchcaps.votes import DenseVotes, SharedVotes, Votes

# Exact types: a subclass may compute its votes in another way, so it takes the plain form.
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
        votes: votes of vector poses, dense or shared.
        bias: added before the squash, `[J, D]` or `[1, D]`.
        iterations: number of times that parents are computed.
        accumulate: whether logits accumulate, as in the paper, or are computed from the last pose alone.
        leaky: whether a child may be assigned to none of the parents.
        through_all: whether gradients pass through all iterations or only the last.
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
    """Pose of the parents `[B, J, D]`, and the inputs of all squashes for the backward pass.

    Shape: pose `[B, N, D_in]`, weight `[N or 1, J, D_in, D]`, bias `[J, D]`.
    """
    check_dynamic(pose, weight, bias, shared, iterations)
    outputs = empty_outputs(pose, weight, iterations)
    dispatch.call(
        "dynamic_forward",
        {"pose": pose, "weight": weight, "bias": bias},
        dict(zip(("out_pose", "totals"), outputs)),
        iterations=iterations, shared=shared, accumulate=accumulate, leaky=leaky, through_all=through_all,
    )  # fmt: skip
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
    """Gradients of pose, weight and bias; the last is returned also if there is no bias."""
    check_dynamic(pose, weight, bias, shared, iterations)
    check_like(("grad", "totals"), (grad, totals), output_shapes(pose, weight, iterations), pose.dtype)
    outputs = empty_gradients(pose, weight)
    dispatch.call(
        "dynamic_backward",
        {"pose": pose, "weight": weight, "bias": bias, "totals": totals, "grad_out_pose": grad},
        dict(zip(("grad_pose", "grad_weight", "grad_bias"), outputs)),
        iterations=iterations, shared=shared, accumulate=accumulate, leaky=leaky, through_all=through_all,
    )  # fmt: skip
    return outputs


@dynamic_backward.register_fake
def _(
    grad: Tensor, totals: Tensor, pose: Tensor, weight: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return empty_gradients(pose, weight)


dispatch.register_backward(dynamic_forward, dynamic_backward, tensors=3)


def output_shapes(pose: Tensor, weight: Tensor, iterations: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the outputs of `dynamic_forward`; the totals are padded to whole vectors."""
    padding = dispatch.compiled().PADDING
    parents, size = weight.shape[1], weight.shape[3]
    padded = -(-size // padding) * padding
    return (pose.shape[0], parents, size), (pose.shape[0], iterations, parents, padded)


def empty_outputs(pose: Tensor, weight: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Outputs of `dynamic_forward`, the pose uninitialized."""
    out_pose, totals = output_shapes(pose, weight, iterations)
    # Kernels do not write to all of the padding.
    return pose.new_empty(out_pose), pose.new_zeros(totals)


def empty_gradients(pose: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `dynamic_backward`."""
    return (
        pose.new_empty(pose.shape),
        weight.new_empty(weight.shape),
        weight.new_empty(weight.shape[1], weight.shape[3]),
    )
