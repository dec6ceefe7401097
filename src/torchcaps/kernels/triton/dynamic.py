"""Dynamic routing by Triton kernels: the operators of `torchcaps.kernels.dynamic` on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torchcaps.kernels.triton import dynamic_kernels as kernels
from torchcaps.kernels.triton import launch as launching
from torchcaps.kernels.triton.launch import Geometry, Launcher, ceil_div, power_of_2
from torchcaps.kernels.triton.sizes import dynamic_totals_shape
from torchcaps.kernels.triton.tuning import tuned


@dataclass
class Problem(Geometry):
    """Inputs of one call; the bias is `None` if there is none."""

    bias: Tensor | None
    iterations: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.size_in, self.size_out = self.weight.shape[2:]
        self.kept = dynamic_totals_shape(
            self.batch, self.iterations, self.per_sample, self.size_out, self.children
        )
        self.choice_stride = self.kept[1] * self.kept[2]
        self.constants = {
            "size_in": self.size_in, "size_out": self.size_out, "guide_stride": self.choice_stride,
            "SIZE": self.blocks.size,
        }  # fmt: skip

    def views(self, kept: Tensor, iteration: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs of the squashes, guides, and choices of the children, `[B, ...]`, not contiguous."""
        size = self.per_sample * self.size_out
        row = kept[:, iteration]
        return row[:, :size], row[:, size : 2 * size], row[:, 2 * size : 2 * size + 2 * self.children]


def create_problem(
    pose: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor | None, iterations: int,
    launch: Launcher, architecture: str | None,
) -> Problem:  # fmt: skip
    """A problem from the arguments of an operator, all contiguous."""
    batch, children = pose.shape[:2]
    positions, places = (1, children) if index is None else index.shape
    name = architecture or launching.architecture(pose.device)
    blocks = launching.choose_blocks(name, batch, children, positions, weight.shape[1], weight.shape[3])
    return Problem(
        pose.contiguous(), weight.contiguous(), launching.invert(index, children, pose), positions, places,
        blocks, launch, None if bias is None else bias.contiguous(), iterations,
    )  # fmt: skip


@tuned
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
    *,
    launch: Launcher = launching.run,
    architecture: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The operator `torchcaps::dynamic_forward`, on a GPU, or on a CPU under `TRITON_INTERPRET=1`.

    Args:
        pose: poses of the children, `[B, N, D_in]`, in float32, bfloat16 or float16.
        weight: `[rows, J, D_in, D]`, with one row per place of a field, or one for all.
        bias: added before the squash, `[J, D]`.
        index: `[P, I]`, the children of each position; `None` for one position with all children.
        shared: whether there is one row for all.
        iterations: number of times that parents are computed.
        accumulate: whether logits accumulate or are computed from the last pose alone.
        leaky: whether a child may be assigned to none of the parents.
        through_all: whether gradients pass through all iterations or only the last.
        launch: how kernels are launched.
        architecture: name of the row of block sizes; by default that of the device.

    Returns:
        Poses of the parents `[B, P, J, D]`, and what the backward pass needs, both in float32.
    """
    problem = create_problem(pose, weight, bias, index, iterations, launch, architecture)
    out_pose = problem.empty(*problem.per_parent_shape, problem.size_out)
    kept = problem.empty(*problem.kept)
    sums = problem.empty(problem.splits, problem.count, problem.size_out)
    for t in range(iterations):
        totals, guides, choice = problem.views(kept, t)
        if t == 0:
            choose_uniformly(problem, choice, leaky)
        else:
            problem.over_children(
                kernels.dynamic_couple, problem.inputs("pose", "weight", "start", "vote"), guide=guides,
                choice=choice, LEAKY=leaky,
            )  # fmt: skip
        problem.over_parents(
            kernels.dynamic_total, problem.inputs("pose", "weight", "index"), choice=choice, guide=guides,
            sums=sums, FIRST=t == 0,
        )  # fmt: skip
        last = t == iterations - 1
        problem.per_parent(
            kernels.dynamic_squash, problem.inputs("bias"), sums=sums, totals=totals, guides=guides,
            next_guides=guides if last else problem.views(kept, t + 1)[1], out_pose=out_pose,
            per_sample=problem.per_sample, parents=problem.parents, splits=problem.splits,
            size_out=problem.size_out, stride=problem.choice_stride, FIRST=t == 0, LAST=last,
            ACCUMULATE=accumulate, HAS_BIAS=bias is not None, SIZE=problem.blocks.size,
        )  # fmt: skip
    return out_pose, kept


def choose_uniformly(problem: Problem, choice: Tensor, leaky: bool) -> None:
    """The first couplings, in which all logits are 0."""
    count = launching.number_of_votes(problem.wiring, problem.children, problem.pose) * problem.parents
    choice[:, 0::2] = 0
    choice[:, 1::2] = torch.where(count > 0, 1 / (count + float(leaky)), 0)


@tuned
def dynamic_backward(
    grad: Tensor,
    kept: Tensor,
    pose: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    index: Tensor | None,
    shared: bool,
    iterations: int,
    accumulate: bool,
    leaky: bool,
    through_all: bool,
    *,
    launch: Launcher = launching.run,
    architecture: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The operator `torchcaps::dynamic_backward`; see `dynamic_forward` for the arguments.

    Returns:
        Gradients of pose, weight and bias, in their types; the last also if there is no bias.
    """
    problem = create_problem(pose, weight, bias, index, iterations, launch, architecture)
    grad, kept = grad.contiguous(), kept.contiguous()
    sums = problem.empty(problem.splits, problem.count, problem.size_out)
    grad_guide = problem.empty(problem.count, problem.size_out).zero_()
    grad_total = torch.empty_like(grad_guide)
    grad_bias = problem.empty(*problem.per_parent_shape, problem.size_out).zero_()
    expected = problem.empty(problem.batch, problem.children)
    to_pose = problem.empty(*pose.shape).zero_()
    to_weight = problem.empty(problem.weight_splits[0], *weight.shape).zero_()
    for t in reversed(range(iterations)):
        totals, guides, choice = problem.views(kept, t)
        last = t == iterations - 1
        if not (last or through_all):
            break
        problem.per_parent(
            kernels.dynamic_squash_backward, {}, grad_pose=grad, sums=sums, totals=totals,
            grad_guide=grad_guide, grad_total=grad_total, grad_bias=grad_bias, per_sample=problem.per_sample,
            splits=problem.splits, size_out=problem.size_out, stride=problem.choice_stride, LAST=last,
            ACCUMULATE=accumulate, SIZE=problem.blocks.size,
        )  # fmt: skip
        through = through_all and t > 0
        common = {"choice": choice, "guide": guides, "grad_total": grad_total, "expected": expected}
        problem.over_children(
            kernels.dynamic_children_backward, problem.inputs("pose", "weight", "start", "vote") | common,
            grad_pose=to_pose, FIRST=t == 0, THROUGH=through, SIZE_IN=power_of_2(problem.size_in),
        )  # fmt: skip
        inputs = problem.inputs("pose", "weight", "index") | common
        problem.over_weights(
            kernels.dynamic_weight_backward, inputs, ceil_div(problem.size_in, 4), grad_weight=to_weight,
            FIRST=t == 0, THROUGH=through,
        )  # fmt: skip
        if through:
            problem.over_parents(kernels.dynamic_parents_backward, inputs, sums=sums)
    return (
        to_pose.to(pose.dtype), to_weight.sum(0).to(weight.dtype), grad_bias.sum((0, 1)).to(weight.dtype)
    )  # fmt: skip
