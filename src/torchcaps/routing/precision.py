"""Where a mixture is fitted in float64, although its tensors are float32: with few active children.

Two children of equal activation are one σ from the mean of every parent, whatever their votes are. Both
have the same distances, so all that depends on the difference of their distances is 0. In the gradients of
poses and weights, terms of opposite sign cancel that are up to a million times larger than what is left, of
which float32 then has one digit. Float64 has nine more. docs/kernels.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from torchcaps._compiling import can_read
from torchcaps._widen import widen
from torchcaps.routing.base import RoutingOutput
from torchcaps.votes import Votes

# The effective number of children from which on float32 has enough digits. With three, the worst error of any
# gradient was 5e-4; see docs/kernels.md.
ENOUGH = 4

Iterate = Callable[[Votes, Tensor, Tensor | None, torch.dtype], Iterator[RoutingOutput]]


def iterate_precisely(
    iterate: Iterate, votes: Votes, activation: Tensor, start: Tensor | None, *, always: bool = False
) -> Iterator[RoutingOutput]:
    """`iterate(votes, activation, start, dtype)`, in float64 where children are few, or `always`.

    The dtype is that of the tensors before: its limits, such as `min_mass`, stay what they are.
    """
    dtype = votes.pose.dtype
    if not (always or few_children(votes, activation)):
        yield from iterate(votes, activation, start, dtype)
        return
    start = None if start is None else widen(start)
    for routed in iterate(votes.double(), widen(activation), start, dtype):
        *parents, coupling = routed
        pose, presence, logits = (each.to(dtype) for each in parents)
        yield RoutingOutput(pose, presence, logits, None if coupling is None else coupling.to(dtype))


def few_children(votes: Votes, activation: Tensor) -> bool:
    """Whether all fields of any sample have few children: an effective number below `ENOUGH`.

    That number is :math:`(\\sum a)^2 / \\sum a^2`. On a GPU, and in compiled or transformed code, only the
    size of the fields counts: looking at numbers would wait for the device, or cannot be traced.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.ones(1, 6, 16), torch.ones(6, 3, 4, 4), "matrix")
        >>> few_children(votes, torch.tensor([[0.9, 0.9, 0, 0, 0, 0]])), few_children(votes, torch.ones(1, 6))
        (True, False)
    """
    device = activation.device.type
    if activation.dtype != torch.float32 or device not in ("cpu", "cuda"):
        return False
    if votes.children < ENOUGH:
        return True
    if not can_read(activation):
        return False
    child = votes.gather(activation.detach().double())
    squares = child.square().sum(2)
    few = (child.sum(2).square() < ENOUGH * squares) | (squares == 0)
    return bool((few.all(1) & (squares > 0).any(1)).any())
