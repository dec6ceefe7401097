from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_counts
from torchcaps.capsules import SQUASHES, length, squash
from torchcaps.routing.base import Routing, RoutingOutput, length_logit, min_mass
from torchcaps.votes import Votes, agreement, weighted_sum


class SelfAttentionRouting(Routing):
    r"""Self-attention routing (Mazzia, Salvetti, Chiaberge 2021): one pass, by agreement among the votes.

    A vote agrees with a parent as far as it agrees with all votes for that parent:

    .. math::
        A_{ij} = \frac{1}{\sqrt D}\, \hat u_{ij} \cdot \sum_k \hat u_{kj}, \quad
        c_{ij} = \operatorname{softmax}_j(A_{ij}), \quad
        v_j = \operatorname{squash}\Big(\sum_i (c_{ij} + b_{ij})\, \hat u_{ij}\Big)

    The learned :math:`b_{ij}` starts at 0. As it is added after the softmax, the couplings of a child,
    :math:`c_{ij} + b_{ij}`, add up to 1 only at the start. The activation is the length of the pose; as in
    dynamic routing, a child's activation counts only as the length of its pose.

    Args:
        parents: number of parent types.
        rows: leading dimensions of the layer's weight, which :math:`b` has too; empty for one number per
            parent type.
        squash: a member of the squash family.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.randn(2, 16, 8), torch.randn(16, 10, 8, 16))
        >>> SelfAttentionRouting(parents=10, rows=(16,))(votes, torch.ones(2, 16)).pose.shape
        torch.Size([2, 1, 10, 16])
    """

    uses_activation: ClassVar[bool] = False
    has_lengths: ClassVar[bool] = True

    def __init__(self, parents: int = 1, *, rows: tuple[int, ...] = (), squash: str = "exp") -> None:
        super().__init__(parents, iterations=1)
        self.rows = check_counts("rows", rows)
        self.squash = check_choice("squash", squash, tuple(SQUASHES))
        self.bias = nn.Parameter(torch.zeros(*self.rows, parents))

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the only iteration; a `start` counts as a prior, its logarithm is added to the agreement."""
        present = votes.gather(torch.ones_like(activation)).unsqueeze(-1).expand(-1, -1, -1, votes.parents)
        total = votes.reduce(weighted_sum, present)
        logits = votes.reduce(agreement, total) / sqrt(votes.pose_dim)
        if start is not None:
            logits = logits + start.clamp(min=min_mass(start.dtype)).log()
        bias = votes.expand_rows(self.bias) if self.rows else self.bias
        coupling = votes.softmax(logits) + bias * present
        pose = squash(votes.reduce(weighted_sum, coupling), self.squash)
        presence = length(pose)
        yield RoutingOutput(pose, presence, length_logit(presence), coupling)

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        super()._check(votes, activation, start)
        rows = tuple(votes.weight.shape[: votes.row_dims])
        if self.rows not in ((), rows):
            raise ValueError(f"the routing was built for rows={self.rows}, the layer has rows={rows}")
