"""EM routing with a covariance of rows as a fused operator: 4×4 matrix poses, any geometry, on the CPU.

As in the plain form, everything is computed in float64: a covariance of few children is nearly singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchcaps._widen import widen
from torchcaps.kernels import dispatch
from torchcaps.kernels.arguments import check_em, check_like
from torchcaps.kernels.em import empty_gradients, inputs, offset_of, output_shapes, supports
from torchcaps.votes import Votes


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

    The arguments are those of `torchcaps.kernels.em.route`.
    """
    if not supports(votes, activation, *(beta or ())):
        return None
    if votes.pose.device.type != "cpu":
        dispatch.plain_on_gpu("EM routing with a covariance of rows has a kernel for the CPU only")
        return None
    dtype = votes.pose.dtype
    offset = offset_of(votes)
    weight = widen(votes.weight)
    beta_u, beta_a = (widen(b).expand(votes.parents) for b in beta) if beta else (None, None)
    parents = em_rows_forward(
        widen(votes.pose),
        widen(activation),
        weight if weight.ndim == 4 else weight.unsqueeze(0),
        beta_u,
        beta_a,
        votes.index,
        None if offset is None else offset.double(),
        list(temperatures),
        votes.positions * votes.parents / votes.total_children if normalize_mass else 1.0,
        epsilon,
        dtype == torch.float32,
    )
    pose, presence, logit = (each.to(dtype) for each in parents[:3])
    return pose, presence, logit


@torch.library.custom_op("torchcaps::em_rows_forward", mutates_args=())
def em_rows_forward(
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
    single: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pose, activation and logit of the parents, and the statistics of all iterations for the backward pass.

    Tensors are float64, of the shapes of `em_forward`; `single` says that they were float32 before, whose
    limits count.
    """
    check(pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    outputs = empty_outputs(pose, weight, index, len(temperatures))
    dispatch.call(
        "em_rows_forward",
        inputs(pose, activation, weight, beta_u, beta_a, index, offset),
        dict(zip(("out_pose", "out_activation", "out_logit", "statistics"), outputs)),
        temperatures=temperatures, mass_scale=mass_scale, epsilon=epsilon, single=single,
    )  # fmt: skip
    return outputs


@em_rows_forward.register_fake
def _(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_u: Any, beta_a: Any, index: Tensor | None,
    offset: Any, temperatures: Sequence[float], mass_scale: float, epsilon: float, single: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return empty_outputs(pose, weight, index, len(temperatures))


@torch.library.custom_op("torchcaps::em_rows_backward", mutates_args=())
def em_rows_backward(
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
    single: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of pose, activation, weight and both betas (zeros if there are none)."""
    check(pose, activation, weight, beta_u, beta_a, index, offset, temperatures)
    names = ("grad_pose", "grad_activation", "grad_logit", "statistics")
    given = (grad_pose, grad_activation, grad_logit, statistics)
    check_like(names, given, rows_shapes(pose, weight, index, len(temperatures)), pose)
    outputs = empty_gradients(pose, activation, weight)
    dispatch.call(
        "em_rows_backward",
        inputs(pose, activation, weight, beta_u, beta_a, index, offset)
        | dict(zip(("grad_out_pose", "grad_out_activation", "grad_out_logit", "statistics"), given)),
        dict(zip(("grad_pose", "grad_activation", "grad_weight", "grad_beta_u", "grad_beta_a"), outputs)),
        temperatures=temperatures, mass_scale=mass_scale, epsilon=epsilon, single=single,
    )  # fmt: skip
    return outputs


@em_rows_backward.register_fake
def _(
    grad_pose: Tensor, grad_activation: Tensor, grad_logit: Tensor, statistics: Tensor, pose: Tensor,
    activation: Tensor, weight: Tensor, *options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return empty_gradients(pose, activation, weight)


dispatch.register_backward(em_rows_forward, em_rows_backward, tensors=7)


def check(pose: Tensor, *others: Any) -> None:
    """Check the arguments that both passes have in common."""
    check_em(pose, *others)
    if pose.dtype != torch.float64:
        raise ValueError(f"pose must be float64, got {pose.dtype}: use pose.double(), and the others alike")


def rows_shapes(
    pose: Tensor, weight: Tensor, index: Tensor | None, iterations: int
) -> tuple[tuple[int, ...], ...]:
    """Shapes of the outputs of `em_rows_forward`."""
    *parents, statistics = output_shapes(pose, weight, index, iterations)
    return (*parents, (*statistics[:-1], dispatch.compiled().ROWS_STATISTICS))


def empty_outputs(
    pose: Tensor, weight: Tensor, index: Tensor | None, iterations: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `em_rows_forward`."""
    first, second, third, statistics = rows_shapes(pose, weight, index, iterations)
    return (
        pose.new_empty(*first),
        pose.new_empty(*second),
        pose.new_empty(*third),
        pose.new_empty(*statistics),
    )
