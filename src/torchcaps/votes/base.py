from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import TypeVar

import torch
from torch import Tensor

from torchcaps._checks import check_dtype, check_floating
from torchcaps._compiling import compiling, recompute
from torchcaps._widen import widen
from torchcaps.poses import POSE_SPACES, PoseSpace
from torchcaps.votes.reductions import centered_sum, weighted_sum

T = TypeVar("T")


def at_least_float32(values: Tensor) -> Tensor:
    """Half-precision values in float32, others as they are: routing never iterates in less."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


class Votes(ABC):
    """What a routing reads from a layer: votes, and the competition among the parents of each child.

    Args:
        pose: poses of the N children, `[B, N, D_in]`.
        weight: see the table above.
        space: how a pose becomes a vote: a `PoseSpace`, or the name of one.

    Attributes:
        index: `[P, I]`, which child is at each place of each field; N where the field leaves the
            image. `None` if there is one position, whose field is all children in order.
        grid: the shape `(H', W')` of the P positions, or `None`.
    """

    # Sizes of the weight before the parents: one for its rows, or none if all children share it.
    row_dims = 1
    # Whether every child of a field has a row of its own.
    _own_rows = True

    def __init__(self, pose: Tensor, weight: Tensor, space: PoseSpace | str) -> None:
        check_floating("weight", weight, self.row_dims + 1)
        self.pose = at_least_float32(pose)
        self.weight = at_least_float32(weight)
        self.space = POSE_SPACES[space].of_weight(pose.shape[-1], weight) if isinstance(space, str) else space
        self.index: Tensor | None = None
        self.grid: tuple[int, int] | None = None
        self._votes: Tensor | None = None
        self._unfolded: Tensor | None = None
        self._marks = 0
        if pose.shape[-1] != self.space.in_dim:
            raise ValueError(f"pose must have {self.space.in_dim} numbers per capsule, got {pose.shape[-1]}")
        if tuple(weight.shape[self.row_dims + 1 :]) != self.space.weight_shape:
            sizes = ", ".join(["rows"] * self.row_dims + ["J", *map(str, self.space.weight_shape)])
            raise ValueError(f"weight must be [{sizes}] for {self.space!r}, got {list(weight.shape)}")
        check_dtype("pose", self.pose, self.weight)

    @abstractmethod
    def unfold(self) -> Tensor:
        """Poses in the layout that `compute` takes."""

    @abstractmethod
    def compute(self, poses: Tensor) -> Tensor:
        """The votes of poses from `unfold`, `[B, P, I, J, D]`."""

    def expand_rows(self, values: Tensor) -> Tensor:
        """Numbers per row of the weight and parent, `[rows, J]`, for every vote: `[1, P, I, J]`."""
        return values.expand(1, self.positions, self.children, self.parents)

    def tensor(self) -> Tensor:
        """All votes, `[B, P, I, J, D]`."""
        return self.compute(self.unfold())

    def reduce(self, function: Callable[..., T], *others: Tensor) -> T:
        """`function(votes.tensor(), *others)`, computed in the cheapest way: how a routing reads its votes.

        Any function gives the right result, if it draws no random numbers. The tensor is computed once and
        kept. In compiled code, votes that are cheap to compute are computed again for each call and for its
        gradient. If the function then ends in a sum over them, as `weighted_sum` and `agreement` do, the
        compiler computes them inside the sum and never stores them; otherwise they are stored for a moment.

        Example:
            >>> from torchcaps.votes import SharedVotes
            >>> votes = SharedVotes(torch.ones(2, 50, 8), torch.ones(3, 8, 16))
            >>> votes.reduce(lambda vote: vote.mean(2)).shape
            torch.Size([2, 1, 3, 16])
        """
        if self.space.recompute and compiling():
            if self._unfolded is None:
                self._unfolded = self.unfold()
            self._marks += 1
            result: T = recompute(function, self.compute, self._unfolded, self._marks, *others)
            return result
        if self._votes is None:
            self._votes = self.tensor()
        return function(self._votes, *others)

    def total(self, share: Tensor) -> Tensor:
        r"""The sum of the votes for each parent, :math:`\sum_i s_{ij} V_{ij}`.

        Shares that are the same for all parents, `[B, P, I, 1]`, are applied to the poses. The sum is then
        a matrix product, and the votes are never computed.

        Shape: share `[B, P, I, J]` or `[B, P, I, 1]` to `[B, P, J, D]`.

        Example:
            >>> from torchcaps.votes import SharedVotes
            >>> votes = SharedVotes(torch.ones(2, 50, 8), torch.ones(3, 8, 16))
            >>> votes.total(votes.uniform()).shape
            torch.Size([2, 1, 3, 16])
        """
        if share.shape[-1] == 1 and self._own_rows and self._is_ours and self.space.linear:
            poses = self.unfold()
            poses = poses.unsqueeze(1) if self.index is None else poses
            return self.space.compose_sum(share * poses, self.weight)
        return self.reduce(weighted_sum, share.expand(*share.shape[:-1], self.parents))

    def mean(self, share: Tensor) -> Tensor:
        """`total` under shares that add up to 1 for each parent, or to 0, with accurate gradients.

        What all votes for a parent have in common adds nothing to the slope with respect to a share.

        Shape: share `[B, P, I, J]` or `[B, P, I, 1]` to `[B, P, J, D]`.
        """
        return self.reduce(centered_sum, share.expand(*share.shape[:-1], self.parents))

    @property
    def _is_ours(self) -> bool:
        """Whether votes and poses are classes of this package, which compute nothing else than they say."""
        return all(type(part).__module__.startswith("torchcaps.") for part in (self, self.space))

    def double(self) -> Votes:
        """The votes in float64.

        Votes of a class or a pose space from elsewhere, which may have tensors of their own, are computed as
        before and then converted.

        Example:
            >>> from torchcaps.votes import SharedVotes
            >>> SharedVotes(torch.ones(2, 50, 8), torch.ones(3, 8, 16)).double().tensor().dtype
            torch.float64
        """
        votes = copy(self)
        votes.pose, votes.weight = widen(self.pose), widen(self.weight)
        votes._unfolded = None
        votes._votes = None
        if not self._is_ours and not compiling():
            self._votes = self.tensor() if self._votes is None else self._votes
            votes._votes = widen(self._votes)
        return votes

    def with_weight(self, weight: Tensor, space: PoseSpace) -> Votes:
        """The votes that the same children would cast with another weight, in another pose space.

        For what a routing learns per child and parent beside the poses, such as logits.

        Shape: weight `[rows, J, *space.weight_shape]` with the rows of `self.weight`, or without rows if all
        children share it; J may differ.

        Example:
            >>> from torchcaps.poses import VectorPose
            >>> from torchcaps.votes import DenseVotes
            >>> votes = DenseVotes(torch.ones(2, 6, 8), torch.ones(6, 3, 8, 16))
            >>> votes.with_weight(torch.ones(6, 3, 8, 1), VectorPose(8, 1)).tensor().shape
            torch.Size([2, 1, 6, 3, 1])
        """
        votes = copy(self)
        votes.weight, votes.space = at_least_float32(weight), space
        votes._votes = votes._unfolded = None
        return votes

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
        """P, the number of positions that parents have."""
        return 1 if self.index is None else self.index.shape[0]

    @property
    def parents(self) -> int:
        """J, the number of parent types."""
        return self.weight.shape[self.row_dims]

    @property
    def pose_dim(self) -> int:
        """D, the numbers in a vote."""
        return self.space.out_dim

    @property
    def inside(self) -> Tensor:
        """Which places of a field hold a child, bool `[P, I]`; the others are outside the image.

        Sums under couplings need no mask: `softmax`, `hard` and `uniform` give such places 0. A median, a
        maximum or a count over children must leave them out.

        Example:
            >>> from torchcaps.votes import ConvVotes
            >>> votes = ConvVotes(torch.rand(2, 5, 5, 1, 8), torch.rand(9, 3, 8, 4), kernel_size=3, padding=1)
            >>> votes.inside[0].int().unflatten(0, (3, 3))
            tensor([[0, 0, 0],
                    [0, 1, 1],
                    [0, 1, 1]], dtype=torch.int32)
            >>> largest = votes.tensor().masked_fill(~votes.inside[..., None, None], -torch.inf).amax(2)
        """
        if self.index is None:
            return torch.ones(1, self.total_children, dtype=torch.bool, device=self.pose.device)
        return self.index < self.total_children

    def gather(self, values: Tensor) -> Tensor:
        """Spread a number per child, `[B, N]`, over the fields: `[B, P, I]`, 0 outside the image."""
        if self.index is None:
            return values.unsqueeze(1)
        outside = values.new_zeros(values.shape[0], 1)
        return (
            torch.cat([values, outside], 1)
            .index_select(1, self.index.flatten())
            .unflatten(1, self.index.shape)
        )

    def uniform(self) -> Tensor:
        """Even shares, `[B, P, I, J]`: 1 / (number of parents of this child).

        Counts all types at all positions whose field covers the child, so it is larger at borders.
        """
        shape = (self.batch, self.positions, -1, self.parents)
        if self.index is None:
            return self.pose.new_full((1, 1, 1, 1), 1 / self.parents).expand(
                self.batch, 1, self.total_children, self.parents
            )
        ones = self.pose.new_ones(1, self.positions, self.index.shape[1])
        share = torch.where(self.inside, 1 / (self.parents * self._over_positions(ones, "sum")), 0.0)
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
        """Assign each child to its best parent alone (the limit of `softmax`); ties are shared."""
        weight = (logits == self._peak(logits)).to(logits.dtype)
        return self._divide(weight, self._total(weight))

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
        # Outside the image there is no child: nothing is assigned there, whatever was computed.
        present = self.inside.unsqueeze(-1)
        return torch.where(present, weight, 0.0) / torch.where(present, total, 1.0)

    def _over_positions(self, values: Tensor, reduce: str) -> Tensor:
        """Reduce `[B, P, I]` over all fields that hold the same child, and spread the result again."""
        assert self.index is not None
        where = self.index.flatten().expand(values.shape[0], -1)
        start = 0.0 if reduce == "sum" else -math.inf
        slots = values.new_full((values.shape[0], self.total_children + 1), start)
        slots = slots.scatter_reduce(1, where, values.flatten(1), reduce)
        return slots.gather(1, where).view_as(values)
