from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_counts
from torchcaps.poses import PoseSpace, VectorPose
from torchcaps.routing.base import Routing, RoutingOutput, even_gradient, mass_and_shares, min_mass
from torchcaps.routing.dynamic import logits_of
from torchcaps.votes import Votes


class SelfRouting(Routing):
    r"""Each child chooses its parents by itself, from its own pose (Hahn, Pyeon, Kim 2019).

    With poses :math:`u_i` and activations :math:`a_i` of the children and votes :math:`\hat u_{ij}`,

    .. math::
        c_{ij} = \operatorname{softmax}_j\big(w_{ij} \cdot u_i + b_{ij}\big), \quad
        a_j = \frac{\sum_i c_{ij} a_i}{\sum_i a_i}, \quad
        u_j = \frac{\sum_i c_{ij} a_i \hat u_{ij}}{\sum_i c_{ij} a_i}

    There is one iteration and no agreement: votes have no influence on the couplings. Route weights
    :math:`w` and biases :math:`b` start at 0, even shares. The logits are :math:`\ln a_j`, so that their
    softmax over the classes of a class layer is :math:`a_j` again.

    The softmax is over **all** parents of a child, other positions included, and the sums are over the
    children in the field of a parent. So :math:`a_j` is the share of its field's activation that a parent
    gets. Where a child is in one field only (all but convolutional layers whose fields overlap), this is the
    published form, and the :math:`a_j` at one position add up to 1. Where fields overlap, positions compete
    too (as published, each position has a softmax of its own), and the :math:`a_j` at one position add up to
    the part that its field does not give to other positions. A field without active children has
    :math:`a_j = 0`.

    Couplings given as a `start` are priors: their logarithm is added to the logits.

    Args:
        parents: number of parent types.
        in_dim: numbers in a child's pose. Without it there are no route weights, and the poses of children
            have no influence on the couplings.
        rows: leading dimensions of the layer's weight, such as `(N,)` for N children: each row has its own
            route weights. By default all children share them.

    Shape: `weight` is `[*rows, parents, in_dim]`, `bias` is `[*rows, parents]`.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.randn(2, 6, 8), torch.randn(6, 3, 8, 16))
        >>> routing = SelfRouting(parents=3, in_dim=8, rows=(6,))
        >>> routing(votes, torch.rand(2, 6)).pose.shape
        torch.Size([2, 1, 3, 16])
        >>> routing(votes, torch.rand(2, 6), coupling=True).coupling[0, 0, 0].detach()
        tensor([0.3333, 0.3333, 0.3333])
    """

    def __init__(self, parents: int = 1, *, in_dim: int | None = None, rows: tuple[int, ...] = ()) -> None:
        super().__init__(parents, iterations=1)
        self.rows = check_counts("rows", rows)
        self.bias = nn.Parameter(torch.zeros(*self.rows, parents))
        self.weight: nn.Parameter | None = None
        if in_dim is not None:
            self.weight = nn.Parameter(torch.zeros(*self.rows, parents, check_count("in_dim", in_dim)))

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the only iteration."""
        logits = self._logits(votes)
        coupling = votes.softmax(logits if start is None else logits + logits_of(votes, start))
        child = votes.gather(activation).unsqueeze(-1)
        least = min_mass(child.dtype)
        # Shares of the field's activation: their sums over children are the activations of the parents.
        child = even_gradient(child / child.sum(2, keepdim=True).clamp(min=least), 2)
        presence, share = mass_and_shares(coupling * child)
        pose = votes.mean(share) if votes.space.linear else votes.reduce(votes.space.mean, share)
        yield RoutingOutput(pose, presence, presence.clamp(min=least).log(), coupling)

    def supports(self, space: PoseSpace) -> bool:
        """Poses of every space: it takes the mean that the space defines."""
        return True

    def _logits(self, votes: Votes) -> Tensor:
        """How much each child prefers each parent, `[B, P, I, J]`."""
        shape = (votes.batch, votes.positions, votes.children, votes.parents)
        bias = (votes.expand_rows(self.bias) if self.rows else self.bias).to(votes.pose.dtype).expand(shape)
        if self.weight is None:
            return bias
        rows = votes.weight.shape[: votes.row_dims]
        size = self.weight.shape[-1]
        # One number per vote: a pose of one dimension.
        weight = self.weight.expand(*rows, votes.parents, size).unsqueeze(-1)
        return votes.with_weight(weight, VectorPose(size, 1)).tensor().squeeze(-1) + bias

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        super()._check(votes, activation, start)
        rows = tuple(votes.weight.shape[: votes.row_dims])
        if self.rows not in ((), rows):
            raise ValueError(f"the routing was built for rows={self.rows}, the layer has rows={rows}")
        if self.weight is not None and self.weight.shape[-1] != votes.space.in_dim:
            size = self.weight.shape[-1]
            raise ValueError(
                f"the routing was built for in_dim={size}, the layer has in_dim={votes.space.in_dim}"
            )
