"""EM routing by Triton kernels: the operators of `torchcaps.kernels.em` on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torchcaps.kernels.triton import em_backward as backward_kernels
from torchcaps.kernels.triton import em_forward as forward_kernels
from torchcaps.kernels.triton import launch as launching
from torchcaps.kernels.triton.launch import Geometry, Launcher, ceil_div
from torchcaps.kernels.triton.sizes import EM_STATISTICS, em_statistics_shape
from torchcaps.kernels.triton.tuning import tuned


@dataclass
class Problem(Geometry):
    """Inputs of one call, and memory that all iterations use."""

    activation: Tensor
    beta_u: Tensor | None
    beta_a: Tensor | None
    offset: Tensor | None
    temperatures: Sequence[float]
    mass_scale: float
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self.constants = {"HAS_OFFSET": self.offset is not None}
        self.statistics = em_statistics_shape(
            self.batch, len(self.temperatures), self.per_sample, self.children
        )
        self.choice_stride = self.statistics[1] * self.statistics[2]
        self.gaussian = self.empty(self.count, 48)
        self.log_peak = self.empty(self.count)
        self.field = self.empty(self.lanes)
        if self.mixing:
            grid = (ceil_div(self.lanes, self.blocks.lanes),)
            self.run(
                forward_kernels.em_field, grid, self.inputs("activation", "index"), field=self.field,
                lanes=self.lanes, children=self.children, positions=self.positions, places=self.places,
                HAS_INDEX=self.wiring is not None, LANES=self.blocks.lanes,
            )  # fmt: skip

    @property
    def mixing(self) -> bool:
        """Whether activations are mixing proportions."""
        return self.beta_u is None

    def choice(self, statistics: Tensor, iteration: int) -> Tensor:
        """The largest logit and 1 / Σ exp of each child, `[B, N · 2]`, not contiguous."""
        first = self.per_sample * EM_STATISTICS
        return statistics[:, iteration, first : first + 2 * self.children]


def create_problem(
    pose: Tensor, activation: Tensor, weight: Tensor, beta_u: Tensor | None, beta_a: Tensor | None,
    index: Tensor | None, offset: Tensor | None, temperatures: Sequence[float], mass_scale: float,
    epsilon: float, launch: Launcher, architecture: str,
) -> Problem:  # fmt: skip
    """A problem from the arguments of an operator, all contiguous."""
    batch, children = pose.shape[:2]
    positions, places = (1, children) if index is None else index.shape
    blocks = launching.choose_blocks(architecture, batch, children, positions, weight.shape[1], 16)
    pose, activation, weight = pose.contiguous(), activation.contiguous(), weight.contiguous()
    beta_u, beta_a, offset = (t if t is None else t.contiguous() for t in (beta_u, beta_a, offset))
    wiring = launching.invert(index, children, pose)
    return Problem(
        pose, weight, wiring, positions, places, blocks, launch, activation, beta_u, beta_a, offset,
        temperatures, mass_scale, epsilon,
    )  # fmt: skip


@tuned
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
    *,
    launch: Launcher = launching.run,
    architecture: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The operator `torchcaps::em_forward`, on a GPU, or on a CPU under `TRITON_INTERPRET=1`.

    Args:
        pose: poses of the children, `[B, N, 16]`, in float32, bfloat16 or float16.
        activation: of the children, `[B, N]`.
        weight: `[rows, J, 4, 4]`.
        beta_u: `[J]`; `None` for mixing proportions.
        beta_a: `[J]`; `None` for mixing proportions.
        index: `[P, I]`, the children of each position; `None` for one position with all children.
        offset: added to the votes of a place, `[places, 16]`.
        temperatures: :math:`\\lambda_t` of each iteration.
        mass_scale: factor of all masses in the cost.
        epsilon: added to every variance.
        launch: how kernels are launched.
        architecture: name of the row of block sizes; by default that of the device.

    Returns:
        Pose, activation and logit of the parents, and what the backward pass needs, all in float32.
    """
    problem = create_problem(
        pose, activation, weight, beta_u, beta_a, index, offset, temperatures, mass_scale, epsilon, launch,
        architecture or launching.architecture(pose.device),
    )  # fmt: skip
    out_pose = problem.empty(*problem.per_parent_shape, 16)
    out_activation, out_logit = (
        problem.empty(*problem.per_parent_shape),
        problem.empty(*problem.per_parent_shape),
    )
    statistics = problem.empty(*problem.statistics)
    masses = problem.empty(problem.splits, problem.count)
    sums = problem.empty(problem.splits, 2, problem.count, 16)
    center = problem.empty(problem.count, 16)
    for t, temperature in enumerate(temperatures):
        choice = problem.choice(statistics, t)
        if t == 0:
            choose_uniformly(problem, choice)
        else:
            problem.over_children(
                forward_kernels.em_assign, problem.inputs("pose", "weight", "offset", "start", "vote"),
                gaussian=problem.gaussian, log_peak=problem.log_peak, choice=choice,
            )  # fmt: skip
        for around_center in (False, True):
            problem.over_parents(
                forward_kernels.em_moments,
                problem.inputs("pose", "activation", "weight", "offset", "index"),
                choice=choice, gaussian=problem.gaussian, log_peak=problem.log_peak, center=center,
                masses=masses, sums=sums, FIRST=t == 0, AROUND_CENTER=around_center,
            )  # fmt: skip
            if not around_center:
                problem.per_parent(
                    forward_kernels.em_center, {}, masses=masses, sums=sums, gaussian=problem.gaussian,
                    center=center, splits=problem.splits, FIRST=t == 0,
                )  # fmt: skip
        problem.per_parent(
            forward_kernels.em_fit, problem.inputs("beta_u", "beta_a"), masses=masses, sums=sums,
            center=center, field=problem.field, gaussian=problem.gaussian, log_peak=problem.log_peak,
            fitted=statistics[:, t], out_pose=out_pose, out_activation=out_activation, out_logit=out_logit,
            per_sample=problem.per_sample, parents=problem.parents, splits=problem.splits,
            fitted_stride=problem.choice_stride, temperature=temperature,
            mass_scale=problem.mass_scale, epsilon=problem.epsilon, MIXING=problem.mixing,
        )  # fmt: skip
    return out_pose, out_activation, out_logit, statistics


def choose_uniformly(problem: Problem, choice: Tensor) -> None:
    """The first assignment, 1 / (number of parents of this child), as all logits were 0."""
    count = launching.number_of_votes(problem.wiring, problem.children, problem.pose) * problem.parents
    choice[:, 0::2] = 0
    choice[:, 1::2] = torch.where(count > 0, 1 / count, 0)


@tuned
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
    *,
    launch: Launcher = launching.run,
    architecture: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The operator `torchcaps::em_backward`; see `em_forward` for the arguments.

    Returns:
        Gradients of pose, activation, weight and both betas (zeros if there are none), in their types.
    """
    problem = create_problem(
        pose, activation, weight, beta_u, beta_a, index, offset, temperatures, mass_scale, epsilon, launch,
        architecture or launching.architecture(pose.device),
    )  # fmt: skip
    grads = [grad.contiguous() for grad in (grad_pose, grad_activation, grad_logit)]
    masses = problem.empty(problem.splits, problem.count)
    sums = problem.empty(problem.splits, 2, problem.count, 16)
    slopes, terms = problem.empty(problem.count, 48), problem.empty(problem.count, 3)
    shared = problem.empty(3, *problem.per_parent_shape).zero_()
    expected = problem.empty(problem.batch, problem.children)
    to_pose, to_activation = problem.empty(*pose.shape).zero_(), torch.zeros_like(expected)
    to_weight = problem.empty(problem.weight_splits[0], *weight.shape).zero_()
    statistics, stride = statistics.contiguous(), problem.choice_stride
    for t in reversed(range(len(temperatures))):
        problem.per_parent(
            backward_kernels.em_slopes, problem.inputs("beta_u"), fitted=statistics[:, t],
            grad_pose=grads[0], grad_activation=grads[1], grad_logit=grads[2], masses=masses, sums=sums,
            gaussian=problem.gaussian, field=problem.field, slopes=slopes, terms=terms, shared=shared,
            per_sample=problem.per_sample, parents=problem.parents, splits=problem.splits,
            fitted_stride=stride, temperature=temperatures[t], mass_scale=mass_scale, epsilon=epsilon,
            LAST=t == len(temperatures) - 1, MIXING=problem.mixing,
        )  # fmt: skip
        if t > 0:
            problem.per_parent(
                backward_kernels.em_gaussian, {}, fitted=statistics[:, t - 1], gaussian=problem.gaussian,
                log_peak=problem.log_peak, per_sample=problem.per_sample, fitted_stride=stride,
                MIXING=problem.mixing,
            )  # fmt: skip
        common = {
            "choice": problem.choice(statistics, t), "gaussian": problem.gaussian, "slopes": slopes,
            "log_peak": problem.log_peak, "terms": terms, "expected": expected,
        }  # fmt: skip
        problem.over_children(
            backward_kernels.em_children_backward,
            problem.inputs("pose", "activation", "weight", "offset", "start", "vote") | common,
            grad_field=shared[2].sum(-1), grad_pose=to_pose, grad_activation=to_activation,
            FIRST=t == 0, MIXING=problem.mixing,
        )  # fmt: skip
        inputs = problem.inputs("pose", "activation", "weight", "offset", "index") | common
        problem.over_weights(backward_kernels.em_weight_backward, inputs, grad_weight=to_weight, FIRST=t == 0)
        if t > 0:
            problem.over_parents(backward_kernels.em_parents_backward, inputs, masses=masses, sums=sums)
    return (
        to_pose.to(pose.dtype), to_activation.to(activation.dtype), to_weight.sum(0).to(weight.dtype),
        *(part.sum((0, 1)).to(weight.dtype) for part in shared[:2]),
    )  # fmt: skip
