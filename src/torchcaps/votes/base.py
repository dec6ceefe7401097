from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from torchcaps._checks import check_dtype
from torchcaps.votes.compute import compiling, recompute

T = TypeVar("T")


def at_least_float32(values: Tensor) -> Tensor:
    """Half-precision values in float32, others as they are: routing never iterates in less."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


class Votes(ABC):
    """What a routing sees of a layer: votes, and the competition among the parents of each child.

    Attributes:
        pose: poses of the N children `[B, N, D_in]`.
        weight: see the table above.
        matrix: whether poses are matrices.
        index: `[P, I]`, which child stands at each place of each field; N where the field leaves the
            image. `None` if there is one position, whose field is all children in order.
        grid: the shape `(H', W')` that the P positions make, or `None`.
    """

    def __init__(self, pose: Tensor, weight: Tensor, *, matrix: bool) -> None:
        self.pose = at_least_float32(pose)
        self.weight = at_least_float32(weight)
        self.matrix = matrix
        self.index: Tensor | None = None
        self.grid: tuple[int, int] | None = None
        self._made: Tensor | None = None
        self._field: Tensor | None = None
        self._casts = 0
        size_in, size_out = weight.shape[-2:]
        if matrix and size_in != size_out:
            raise ValueError(f"weight of matrix poses must end in [P, P], got {list(weight.shape)}")
        wanted = size_in * size_in if matrix else size_in
        if pose.shape[-1] != wanted:
            raise ValueError(f"pose must have {wanted} numbers per capsule, got {pose.shape[-1]}")
        check_dtype("pose", self.pose, self.weight)

    @abstractmethod
    def unfold(self) -> Tensor:
        """Poses as `cast` takes them, laid out to be multiplied by the weights."""

    @abstractmethod
    def compute(self, field: Tensor) -> Tensor:
        """The votes of these poses, `[B, P, I, J, D]`."""

    def tensor(self) -> Tensor:
        """All votes, `[B, P, I, J, D]`."""
        return self.compute(self.unfold())

    def reduce(self, function: Callable[..., T], *others: Tensor) -> T:
        """`function(votes, *others)`: how a routing reads its votes, with a sum over them in the function.

        The tensor is made once and remembered; in compiled code, matrix poses vote anew for each call, so
        that the compiler can cast votes inside the sum and never store them.

        Example:
            >>> from torchcaps.votes import SharedVotes
            >>> votes = SharedVotes(torch.ones(2, 50, 8), torch.ones(3, 8, 16))
            >>> votes.reduce(lambda vote: vote.mean(2)).shape
            torch.Size([2, 1, 3, 16])
        """
        if self.matrix and compiling():
            if self._field is None:
                self._field = self.unfold()
            self._casts += 1
            made: T = recompute(function, self.compute, self._field, self._casts, *others)
            return made
        if self._made is None:
            self._made = self.tensor()
        return function(self._made, *others)

    @property
    def batch(self) -> int:
        """B, the number of samples."""
        return self.pose.shape[0]

    @property
    def total_children(self) -> int:
        """N, the number of children in the layer below."""
        return self.pose.shape[1]

    @property
    def children(self) -> int:
        """I, the number of children in the field of one position."""
        return self.total_children if self.index is None else self.index.shape[1]

    @property
    def positions(self) -> int:
        """P, the number of places where parents stand."""
        return 1 if self.index is None else self.index.shape[0]

    @property
    def parents(self) -> int:
        """J, the number of parent types."""
        return self.weight.shape[-3]

    @property
    def pose_size(self) -> int:
        """D, the numbers in a vote."""
        return self.weight.shape[-1] ** 2 if self.matrix else self.weight.shape[-1]

    def gather(self, values: Tensor) -> Tensor:
        """Lay a number per child, `[B, N]`, into the fields: `[B, P, I]`, 0 outside the image."""
        if self.index is None:
            return values.unsqueeze(1)
        outside = values.new_zeros(values.shape[0], 1)
        return (
            torch.cat([values, outside], 1)
            .index_select(1, self.index.flatten())
            .unflatten(1, self.index.shape)
        )

    def uniform(self) -> Tensor:
        """The assignment to start from, `[B, P, I, J]`: 1 / (number of parents of this child).

        Counts all types at all positions whose field covers the child, so it is larger at borders.
        """
        shape = (self.batch, self.positions, -1, self.parents)
        if self.index is None:
            return self.pose.new_full((1, 1, 1, 1), 1 / self.parents).expand(
                self.batch, 1, self.total_children, self.parents
            )
        ones = self.pose.new_ones(1, self.positions, self.index.shape[1])
        share = torch.where(self._present(), 1 / (self.parents * self._over_positions(ones, "sum")), 0.0)
        return share.unsqueeze(-1).expand(shape)

    def softmax(self, logits: Tensor, *, leak: bool = False) -> Tensor:
        r"""Softmax over all parents of each child, parents at other positions included.

        Args:
            logits: `[B, P, I, J]`.
            leak: let each child also choose "none of them", at logit 0; the assignments to parents then
                add up to less than 1.
        """
        peak = self._peak(logits)
        if leak:
            peak = peak.clamp(min=0)
        weight = torch.exp(logits - peak)
        total = self._total(weight)
        return self._divide(weight, total + torch.exp(-peak) if leak else total)

    def hard(self, logits: Tensor) -> Tensor:
        """Give each child wholly to its best parent (the limit of `normalize`); ties are shared."""
        weight = (logits == self._peak(logits)).to(logits.dtype)
        return self._divide(weight, self._total(weight))

    def _present(self) -> Tensor:
        assert self.index is not None
        return self.index < self.total_children

    def _peak(self, logits: Tensor) -> Tensor:
        """The largest logit among the parents of each child, `[B, P, I, 1]`; a constant for gradients."""
        peak = logits.detach().amax(-1)
        return (peak if self.index is None else self._over_positions(peak, "amax")).unsqueeze(-1)

    def _total(self, weight: Tensor) -> Tensor:
        total = weight.sum(-1)
        return (total if self.index is None else self._over_positions(total, "sum")).unsqueeze(-1)

    def _divide(self, weight: Tensor, total: Tensor) -> Tensor:
        if self.index is None:
            return weight / total
        # Places outside the image hold no child: whatever they computed, nothing is assigned there.
        present = self._present().unsqueeze(-1)
        return torch.where(present, weight, 0.0) / torch.where(present, total, 1.0)

    def _over_positions(self, values: Tensor, reduce: str) -> Tensor:
        """Reduce `[B, P, I]` over the places where the same child stands, and lay the result back."""
        assert self.index is not None
        where = self.index.flatten().expand(values.shape[0], -1)
        start = 0.0 if reduce == "sum" else -math.inf
        slots = values.new_full((values.shape[0], self.total_children + 1), start)
        slots = slots.scatter_reduce(1, where, values.flatten(1), reduce)
        return slots.gather(1, where).view_as(values)
