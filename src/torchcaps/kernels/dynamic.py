"""Dynamic routing as a fused operator: vector poses, the paper's squash, dense or shared votes.

On a GPU also convolutional votes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.kernels import dispatch
from torchcaps.kernels.arguments import check_dynamic, check_like
from torchcaps.kernels.triton.sizes import MOST_NUMBERS, dynamic_totals_shape
from torchcaps.poses import VectorPose
from torchcaps.votes import ConvVotes, DenseVotes, SharedVotes, Votes

# Exact types: a subclass may compute its votes in another way, so it takes the plain form.
GEOMETRIES = {"cpu": (DenseVotes, SharedVotes), "cuda": (DenseVotes, SharedVotes, ConvVotes)}


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
        votes: votes of vector poses, dense or shared, or of a convolution on a GPU.
        bias: added before the squash, `[J, D]` or `[1, D]`.
        iterations: number of times that parents are computed.
        accumulate: whether logits accumulate, as in the paper, or are computed from the last pose alone.
        leaky: whether a child may be assigned to none of the parents.
        through_all: whether gradients pass through all iterations or only the last.
    """
    weight = votes.weight
    if (
        type(votes) not in GEOMETRIES.get(votes.pose.device.type, ())
        or type(votes.space) is not VectorPose
        or not dispatch.fits(votes.pose, weight, bias)
    ):
        return None
    if votes.pose.is_cuda and max(weight.shape[-2:]) > MOST_NUMBERS:
        dispatch.plain_on_gpu(f"dynamic routing of more than {MOST_NUMBERS} numbers per pose")
        return None
    if bias is not None:
        bias = bias.expand(votes.parents, votes.pose_dim)
    pose, _ = dynamic_forward(
        votes.pose, weight if weight.ndim == 4 else weight.unsqueeze(0), bias, votes.index,
        type(votes) is SharedVotes, iterations, accumulate, leaky, through_all,
    )  # fmt: skip
    return pose.unsqueeze(1) if votes.index is None else pose


@torch.library.custom_op("torchcaps::dynamic_forward", mutates_args=())
def dynamic_forward(
    pose: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    index: Tensor | None,
    shared: bool,
    iterations: int,
    accumulate: bool,
    leaky: bool,
    through_all: bool,
) -> tuple[Tensor, Tensor]:
    """Pose of the parents `[B, J, D]`, and the inputs of all squashes for the backward pass.

    Shape: pose `[B, N, D_in]`, weight `[N or 1, J, D_in, D]`, bias `[J, D]`. On a GPU there may be an index
    `[P, I]`; then weight is `[I, J, D_in, D]`, and the result `[B, P, J, D]`.
    """
    check_dynamic(pose, weight, bias, index, shared, iterations)
    outputs = empty_outputs(pose, weight, iterations)
    dispatch.call(
        "dynamic_forward",
        {"pose": pose, "weight": weight, "bias": bias},
        dict(zip(("out_pose", "totals"), outputs)),
        iterations=iterations, shared=shared, accumulate=accumulate, leaky=leaky, through_all=through_all,
    )  # fmt: skip
    return outputs


@dynamic_forward.register_kernel("cuda")
def _(
    pose: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor | None, shared: bool, iterations: int,
    accumulate: bool, leaky: bool, through_all: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    from torchcaps.kernels.triton import dynamic

    check_dynamic(pose, weight, bias, index, shared, iterations)
    out_pose, totals = dynamic.dynamic_forward(
        pose, weight, bias, index, shared, iterations, accumulate, leaky, through_all
    )
    return out_pose.squeeze(1) if index is None else out_pose, totals


@dynamic_forward.register_fake
def _(
    pose: Tensor, weight: Tensor, bias: Any, index: Any, shared: bool, iterations: int, *rest: Any
) -> tuple[Tensor, Tensor]:
    return empty_outputs(pose, weight, iterations, index)


@torch.library.custom_op("torchcaps::dynamic_backward", mutates_args=())
def dynamic_backward(
    grad: Tensor,
    totals: Tensor,
    pose: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    index: Tensor | None,
    shared: bool,
    iterations: int,
    accumulate: bool,
    leaky: bool,
    through_all: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of pose, weight and bias; the last is returned also if there is no bias."""
    check_dynamic(pose, weight, bias, index, shared, iterations)
    check_like(("grad", "totals"), (grad, totals), output_shapes(pose, weight, iterations), pose)
    outputs = empty_gradients(pose, weight)
    dispatch.call(
        "dynamic_backward",
        {"pose": pose, "weight": weight, "bias": bias, "totals": totals, "grad_out_pose": grad},
        dict(zip(("grad_pose", "grad_weight", "grad_bias"), outputs)),
        iterations=iterations, shared=shared, accumulate=accumulate, leaky=leaky, through_all=through_all,
    )  # fmt: skip
    return outputs


@dynamic_backward.register_kernel("cuda")
def _(
    grad: Tensor, totals: Tensor, pose: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor | None,
    shared: bool, iterations: int, accumulate: bool, leaky: bool, through_all: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    from torchcaps.kernels.triton import dynamic

    check_dynamic(pose, weight, bias, index, shared, iterations)
    check_like(("grad", "totals"), (grad, totals), output_shapes(pose, weight, iterations, index), pose)
    return dynamic.dynamic_backward(
        grad, totals, pose, weight, bias, index, shared, iterations, accumulate, leaky, through_all
    )


@dynamic_backward.register_fake
def _(
    grad: Tensor, totals: Tensor, pose: Tensor, weight: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return empty_gradients(pose, weight)


dispatch.register_backward(dynamic_forward, dynamic_backward, tensors=4)


def output_shapes(
    pose: Tensor, weight: Tensor, iterations: int, index: Tensor | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the outputs of `dynamic_forward`; on the CPU the totals are padded to whole vectors."""
    parents, size = weight.shape[1], weight.shape[3]
    if pose.is_cuda:
        batch, children = pose.shape[:2]
        positions = () if index is None else (index.shape[0],)
        count = parents * (1 if index is None else index.shape[0])
        totals = dynamic_totals_shape(batch, iterations, count, size, children)
        return (batch, *positions, parents, size), totals
    padding = dispatch.compiled().PADDING
    padded = -(-size // padding) * padding
    return (pose.shape[0], parents, size), (pose.shape[0], iterations, parents, padded)


def empty_outputs(
    pose: Tensor, weight: Tensor, iterations: int, index: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Outputs of `dynamic_forward`, the pose uninitialized."""
    out_pose, totals = output_shapes(pose, weight, iterations, index)
    # Kernels do not write to all of the padding.
    return pose.new_empty(out_pose), pose.new_zeros(totals)


def empty_gradients(pose: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `dynamic_backward`."""
    return (
        pose.new_empty(pose.shape),
        weight.new_empty(weight.shape),
        weight.new_empty(weight.shape[1], weight.shape[3]),
    )
