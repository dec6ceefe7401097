from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_number
from torchcaps.capsules import length, squash
from torchcaps.poses import PoseSpace
from torchcaps.routing.base import Routing, RoutingOutput, length_logit, mean_pose, weighted_mean
from torchcaps.routing.precision import iterate_precisely
from torchcaps.votes import Votes, agreement


def unit(vectors: Tensor) -> Tensor:
    """Vectors scaled to length 1; those of length about 1e-6 or less have no direction and stay short.

    The gradient of a direction is 1 / length, which would exceed float32 among votes of mixed scales.
    """
    return vectors / (length(vectors, keepdim=True) + 1e-6)


def mean_sq_distance(space: PoseSpace, votes: Tensor, center: Tensor, share: Tensor) -> Tensor:
    """Mean squared distance of votes from their center, `[B, P, J]`."""
    return (share * space.distance(votes, center.unsqueeze(2))).sum(2)


class KMeansRouting(Routing):
    r"""Soft k-means over votes, each child weighing in with its activation :math:`a_i`.

    .. math::
        \mu_j = \frac{\sum_i a_i c_{ij} \hat u_{ij}}{\sum_i a_i c_{ij}}, \quad
        c_{ij} = \operatorname{softmax}_j\big(-d(\hat u_{ij}, \mu_j) / \tau\big)

    with :math:`d` the squared distance of the pose space or :math:`1 - \cos`. At temperature 0 the assignment
    is hard: Lloyd's algorithm. The pose is the center :math:`\mu_j`; the activation is the length of the
    squashed total :math:`\sum_i a_i c_{ij} \hat u_{ij}`: high where many votes add up, 0 where they cancel
    or nobody votes.

    Poses that cannot be added, such as rotations, have the mean and distance :math:`d` of their space for
    :math:`\mu_j` and :math:`d`, and :math:`m e^{-s^2/2}` for the length of the total, with the mass
    :math:`m = \sum_i a_i c_{ij}` and the mean squared distance :math:`s^2` of the votes from their center:
    unit vectors of the plane whose angles are normally distributed with variance :math:`s^2` have a mean of
    length :math:`e^{-s^2/2}`. The metric must be `"euclidean"`.

    Args:
        parents: number of parent types.
        iterations: how many times the centers are computed.
        metric: `"cosine"`, or `"euclidean"` for the squared distance of the pose space.
        temperature: :math:`\tau`; 0 for hard assignment.

    Example:
        >>> from torchcaps.votes import SharedVotes
        >>> votes = SharedVotes(torch.randn(2, 20, 8), torch.randn(3, 8, 16))
        >>> KMeansRouting(metric="euclidean")(votes, torch.ones(2, 20)).pose.shape
        torch.Size([2, 1, 3, 16])
    """

    has_lengths: ClassVar[bool] = True

    def __init__(
        self, parents: int = 1, *, iterations: int = 3, metric: str = "cosine", temperature: float = 1.0
    ) -> None:
        super().__init__(parents, iterations=iterations)
        self.metric = check_choice("metric", metric, ("cosine", "euclidean"))
        self.temperature = check_number("temperature", temperature)

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield centers and assignments after each update of the centers."""
        yield from iterate_precisely(self._iterate, votes, activation, start)

    def _iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None, limits: torch.dtype
    ) -> Iterator[RoutingOutput]:
        child = votes.gather(activation).unsqueeze(-1)
        coupling = votes.uniform() if start is None else start
        for iteration in range(self.iterations):
            if votes.space.linear:
                center, mass, _ = votes.reduce(partial(weighted_mean, limits=limits), coupling * child)
                total = center * mass.unsqueeze(-1)
            else:
                center, mass, share = votes.reduce(
                    partial(mean_pose, votes.space, limits=limits), coupling * child
                )
                variance = votes.reduce(partial(mean_sq_distance, votes.space), center, share)
                total = (mass * torch.exp(-variance / 2)).unsqueeze(-1)
            presence = length(squash(total))
            yield RoutingOutput(center, presence, length_logit(presence), coupling)
            if iteration < self.iterations - 1:
                closeness = votes.reduce(partial(self._closeness, votes.space), center)
                coupling = (
                    votes.hard(closeness)
                    if self.temperature == 0
                    else votes.softmax(closeness / self.temperature)
                )
                # Adds 0; for the gradients, as in `even_gradient` but over the parents of a child.
                coupling = coupling + coupling.detach() * (1 - votes._total(coupling))

    def supports(self, space: PoseSpace) -> bool:
        """With the euclidean metric every space, otherwise poses that can be added."""
        return space.linear or self.metric == "euclidean"

    def _closeness(self, space: PoseSpace, vote: Tensor, center: Tensor) -> Tensor:
        if self.metric == "cosine":
            return agreement(unit(vote), unit(center))
        return -space.distance(vote, center.unsqueeze(2))
