"""EM routing as a fused operator: 4×4 matrix poses, a diagonal covariance, any geometry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchcaps.kernels import dispatch
from torchcaps.kernels.arguments import SIDE, check_em, check_like
from torchcaps.kernels.triton.sizes import em_statistics_shape
from torchcaps.poses import MatrixPose
from torchcaps.votes import ClassVotes, ConvVotes, DenseVotes, SharedVotes, Votes

# Exact types: a subclass may compute its votes in another way, so it takes the plain form.
GEOMETRIES = (DenseVotes, SharedVotes, ConvVotes, ClassVotes)


def route(
    votes: Votes,
    activation: Tensor,
    beta: tuple[Tensor, Tensor] | None,
    *,
    temperatures: Sequence[float],
    normalize_mass: bool,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Pose `[B, P, J, 16]`, activation and logit `[B, P, J]`; `None` where the kernel does not fit.

    Args:
        votes: votes of 4×4 matrix poses.
        activation: activation of the children, `[B, N]`.
        beta: :math:`\\beta_u` and :math:`\\beta_a`, per type or one for all; `None` for mixing
            proportions.
        temperatures: :math:`\\lambda_t` of each iteration.
        normalize_mass: as in `EMRouting`.
        epsilon: added to every variance.
    """
    if not supports(votes, activation, *(beta or ())):
        return None
    weight = votes.weight
    scale = votes.positions * votes.parents / votes.total_children if normalize_mass else 1.0
    beta_u, beta_a = (b.expand(votes.parents) for b in beta) if beta else (None, None)
    out_pose, out_activation, logit, _ = em_forward(
        votes.pose,
        activation,
        weight if weight.ndim == 4 else weight.unsqueeze(0),
        beta_u,
        beta_a,
        votes.index,
        offset_of(votes),
        list(temperatures),
        scale,
        epsilon,
    )
    return out_pose, out_activation, logit


def supports(votes: Votes, *others: Tensor | None) -> bool:
    """Whether the kernels fit these votes, and the other inputs of a routing."""
    return (
        type(votes) in GEOMETRIES
        and type(votes.space) is MatrixPose
        and dispatch.fits(votes.pose, votes.weight, *others)
        and votes.weight.shape[-1] == SIDE
    )


def offset_of(votes: Votes) -> Tensor | None:
    """The coordinates that a class layer adds to its votes, `[places, 16]`."""
    return votes.offset().flatten(0, 1) if isinstance(votes, ClassVotes) and votes.coordinates else None


@torch.library.custom_op("torchcaps::em_forward", mutates_args=())
def em_forward(
    pose: Tensor,
    activation: Tensor,
    weight: Tensor,
    beta_u: Tensor | None,
    beta_a: Tensor | None,
    index: Tensor | None,
    offset: Tensor | None,
    temperatures: Sequence[float],
    mass_scale: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pose, activation and logit of the parents, and the statistics of all iterations for the backward pass.

    Shape: pose `[B, N, 16]`, activation `[B, N]`, weight `[rows, J, 4, 4]`, beta `[J]` (none for mixing
    proportions), index `[P, I]`, offset `[places, 16]`.
    """
    check_em(pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    outputs = empty_outputs(pose, weight, index, len(temperatures))
    dispatch.call(
        "em_forward",
        inputs(pose, activation, weight, beta_u, beta_a, index, offset),
        dict(zip(("out_pose", "out_activation", "out_logit", "statistics"), outputs)),
        temperatures=temperatures, mass_scale=mass_scale, epsilon=epsilon,
    )  # fmt: skip
    return outputs


@em_forward.register_kernel("cuda")
def _(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_u: Tensor | None, beta_a: Tensor | None,
    index: Tensor | None, offset: Tensor | None, temperatures: Sequence[float], mass_scale: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    from torchcaps.kernels.triton import em

    arguments = (pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    check_em(*arguments)
    return em.em_forward(*arguments, mass_scale, epsilon)


@em_forward.register_fake
def _(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_u: Any, beta_a: Any, index: Any, offset: Any,
    temperatures: Sequence[float], mass_scale: float, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return empty_outputs(pose, weight, index, len(temperatures))


@torch.library.custom_op("torchcaps::em_backward", mutates_args=())
def em_backward(
    grad_pose: Tensor,
    grad_activation: Tensor,
    grad_logit: Tensor,
    statistics: Tensor,
    pose: Tensor,
    activation: Tensor,
    weight: Tensor,
    beta_u: Tensor | None,
    beta_a: Tensor | None,
    index: Tensor | None,
    offset: Tensor | None,
    temperatures: Sequence[float],
    mass_scale: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of pose, activation, weight and both betas (zeros if there are none)."""
    check_em(pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    names = ("grad_pose", "grad_activation", "grad_logit", "statistics")
    given = (grad_pose, grad_activation, grad_logit, statistics)
    check_like(names, given, output_shapes(pose, weight, index, len(temperatures)), pose)
    outputs = empty_gradients(pose, activation, weight)
    dispatch.call(
        "em_backward",
        inputs(pose, activation, weight, beta_u, beta_a, index, offset)
        | dict(zip(("grad_out_pose", "grad_out_activation", "grad_out_logit", "statistics"), given)),
        dict(zip(("grad_pose", "grad_activation", "grad_weight", "grad_beta_u", "grad_beta_a"), outputs)),
        temperatures=temperatures, mass_scale=mass_scale, epsilon=epsilon,
    )  # fmt: skip
    return outputs


@em_backward.register_kernel("cuda")
def _(
    grad_pose: Tensor, grad_activation: Tensor, grad_logit: Tensor, statistics: Tensor, pose: Tensor,
    activation: Tensor, weight: Tensor, beta_u: Tensor | None, beta_a: Tensor | None, index: Tensor | None,
    offset: Tensor | None, temperatures: Sequence[float], mass_scale: float, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    from torchcaps.kernels.triton import em

    check_em(pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    names = ("grad_pose", "grad_activation", "grad_logit", "statistics")
    given = (grad_pose, grad_activation, grad_logit, statistics)
    check_like(names, given, output_shapes(pose, weight, index, len(temperatures)), pose)
    return em.em_backward(
        *given, pose, activation, weight, beta_u, beta_a, index, offset, temperatures, mass_scale, epsilon
    )


@em_backward.register_fake
def _(
    grad_pose: Tensor, grad_activation: Tensor, grad_logit: Tensor, statistics: Tensor, pose: Tensor,
    activation: Tensor, weight: Tensor, *options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return empty_gradients(pose, activation, weight)


dispatch.register_backward(em_forward, em_backward, tensors=7)


def inputs(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_u: Tensor | None, beta_a: Tensor | None,
    index: Tensor | None, offset: Tensor | None,
) -> dict[str, Tensor | None]:  # fmt: skip
    """The inputs by the names that the compiled functions have for them."""
    return {
        "pose": pose, "activation": activation, "weight": weight, "beta_u": beta_u, "beta_a": beta_a,
        "index": index, "offset": offset,
    }  # fmt: skip


def output_shapes(
    pose: Tensor, weight: Tensor, index: Tensor | None, iterations: int
) -> tuple[tuple[int, ...], ...]:
    """Shapes of the outputs of `em_forward`."""
    positions = 1 if index is None else index.shape[0]
    batch, parents = pose.shape[0], weight.shape[1]
    per_parent = (batch, positions, parents)
    statistics: tuple[int, ...]
    if pose.is_cuda:
        statistics = em_statistics_shape(batch, iterations, positions * parents, pose.shape[1])
    else:
        native = dispatch.compiled()
        padded = -(-parents // native.PADDING) * native.PADDING
        statistics = (batch, iterations, positions, padded, native.EM_STATISTICS)
    return (*per_parent, SIDE**2), per_parent, per_parent, statistics


def empty_outputs(
    pose: Tensor, weight: Tensor, index: Tensor | None, iterations: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `em_forward`."""
    pose_shape, shape, _, statistics_shape = output_shapes(pose, weight, index, iterations)
    return (
        pose.new_empty(*pose_shape),
        pose.new_empty(*shape),
        pose.new_empty(*shape),
        pose.new_empty(*statistics_shape),
    )


def empty_gradients(
    pose: Tensor, activation: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `em_backward`."""
    parents = weight.shape[1]
    return (
        pose.new_empty(pose.shape),
        activation.new_empty(activation.shape),
        weight.new_empty(weight.shape),
        weight.new_empty(parents),
        weight.new_empty(parents),
    )
