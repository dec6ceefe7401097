"""EM routing as a fused operator: 4×4 matrix poses, a diagonal covariance, any geometry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchcaps.kernels import dispatch
from torchcaps.kernels.arguments import SIDE, check_em, check_shapes_of
from torchcaps.poses import MatrixPose
from torchcaps.votes import ClassVotes, ConvVotes, DenseVotes, SharedVotes, Votes

# As in problem.h: parent types are padded to whole vectors, and keep so many numbers per iteration.
PADDING, STATISTICS = 16, 50


# The votes that the kernel casts as they do. A subclass may cast others, so it takes the plain form.
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
        votes: of 4×4 matrix poses.
        activation: of the children, `[B, N]`.
        beta: :math:`\\beta_u` and :math:`\\beta_a`, per type or one for all; `None` for mixing
            proportions.
        temperatures: :math:`\\lambda_t` of each iteration.
        normalize_mass: as in `EMRouting`.
        epsilon: added to every variance.
    """
    weight = votes.weight
    if (
        type(votes) not in GEOMETRIES
        or type(votes.space) is not MatrixPose
        or weight.shape[-1] != SIDE
        or not dispatch.fits(votes.pose, activation, weight, *(beta or ()))
    ):
        return None
    place = None
    if type(votes) is ClassVotes and votes.coordinates:
        place = votes.offset().flatten(0, 1)
    scale = votes.positions * votes.parents / votes.total_children if normalize_mass else 1.0
    beta_u, beta_a = (b.expand(votes.parents) for b in beta) if beta else (None, None)
    pose, presence, logit, _ = em_forward(
        votes.pose,
        activation,
        weight if weight.ndim == 4 else weight.unsqueeze(0),
        beta_u,
        beta_a,
        votes.index,
        place,
        list(temperatures),
        scale,
        epsilon,
    )
    return pose, presence, logit


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
    """Pose, activation and logit of the parents, and what the backward pass needs from each iteration.

    Shape: pose `[B, N, 16]`, activation `[B, N]`, weight `[rows, J, 4, 4]`, beta `[J]` (none for mixing
    proportions), index `[P, I]`, offset `[places, 16]`.
    """
    check_em(pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    # Locals keep what was made contiguous alive while only its address is known.
    inputs = [dispatch.contiguous(t) for t in (pose, activation, weight, beta_u, beta_a, index, offset)]
    outputs = empty_outputs(pose, weight, index, len(temperatures))
    dispatch.function("em_forward", pose.dtype)(  # type: ignore[operator]
        options(pose, weight, beta_u, index, temperatures, mass_scale, epsilon),
        dispatch.native.EmInputs(*map(dispatch.address, inputs)),  # type: ignore[union-attr]
        *map(dispatch.address, outputs),
    )
    return outputs


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
    """Gradients by pose, activation, weight and both betas (zeros without betas)."""
    check_em(pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    check_shapes_of(
        ("grad_pose", "grad_activation", "grad_logit", "statistics"),
        (grad_pose, grad_activation, grad_logit, statistics),
        empty_outputs(pose.to("meta"), weight.to("meta"), index, len(temperatures)),
    )
    inputs = [dispatch.contiguous(t) for t in (pose, activation, weight, beta_u, beta_a, index, offset)]
    given = [dispatch.contiguous(t) for t in (grad_pose, grad_activation, grad_logit, statistics)]
    outputs = empty_gradients(pose, activation, weight)
    dispatch.function("em_backward", pose.dtype)(  # type: ignore[operator]
        options(pose, weight, beta_u, index, temperatures, mass_scale, epsilon),
        dispatch.native.EmInputs(*map(dispatch.address, inputs)),  # type: ignore[union-attr]
        *map(dispatch.address, given),
        *map(dispatch.address, outputs),
    )
    return outputs


@em_backward.register_fake
def _(
    grad_pose: Tensor, grad_activation: Tensor, grad_logit: Tensor, statistics: Tensor, pose: Tensor,
    activation: Tensor, weight: Tensor, *options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return empty_gradients(pose, activation, weight)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:7], output[3])
    ctx.options = inputs[7:]
    ctx.set_materialize_grads(True)


def _gradients(
    ctx: Any, grad_pose: Tensor, grad_activation: Tensor, grad_logit: Tensor, _: Any
) -> tuple[Any, ...]:
    *inputs, statistics = ctx.saved_tensors
    pose, activation, weight, beta_u, beta_a = em_backward(
        grad_pose, grad_activation, grad_logit, statistics, *inputs, *ctx.options
    )
    if inputs[3] is None:
        return pose, activation, weight, *[None] * 7
    return pose, activation, weight, beta_u, beta_a, *[None] * 5


em_forward.register_autograd(_gradients, setup_context=_remember)
em_backward.register_autograd(dispatch.no_second_derivative)


def options(
    pose: Tensor, weight: Tensor, beta_u: Tensor | None, index: Tensor | None,
    temperatures: Sequence[float], mass_scale: float, epsilon: float,
) -> object:  # fmt: skip
    """Sizes and options as the compiled part takes them."""
    batch, children = pose.shape[:2]
    positions, places = (1, children) if index is None else index.shape
    return dispatch.native.EmOptions(  # type: ignore[union-attr]
        batch, children, positions, places, weight.shape[1], weight.shape[0], len(temperatures),
        beta_u is None, epsilon, mass_scale, list(temperatures), dispatch.threads(),
    )  # fmt: skip


def empty_outputs(
    pose: Tensor, weight: Tensor, index: Tensor | None, iterations: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Room for what `em_forward` returns."""
    positions = 1 if index is None else index.shape[0]
    batch, parents = pose.shape[0], weight.shape[1]
    padded = (parents + PADDING - 1) // PADDING * PADDING
    return (
        pose.new_empty(batch, positions, parents, SIDE * SIDE),
        pose.new_empty(batch, positions, parents),
        pose.new_empty(batch, positions, parents),
        pose.new_empty(batch, iterations, positions, padded, STATISTICS),
    )


def empty_gradients(
    pose: Tensor, activation: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Room for what `em_backward` returns."""
    parents = weight.shape[1]
    return (
        pose.new_empty(pose.shape),
        activation.new_empty(activation.shape),
        weight.new_empty(weight.shape),
        weight.new_empty(parents),
        weight.new_empty(parents),
    )
