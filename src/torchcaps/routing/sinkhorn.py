from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_flag, check_number
from torchcaps._compiling import realize
from torchcaps.poses import PoseSpace
from torchcaps.routing.base import Routing, RoutingOutput, min_mass
from torchcaps.routing.covariance import MAX_SQ_DISTANCE
from torchcaps.routing.precision import iterate_precisely
from torchcaps.votes import Votes


class SinkhornRouting(Routing):
    r"""Balanced clustering: every parent gets a fixed share of the children's activation, by Sinkhorn steps.

    In other routings one parent may take all children, or none. Here the assignment is a transport plan with
    two marginals: the shares :math:`R_{ij}` of a child add up to 1 over all its parents, other positions
    included, and each parent gets as much activation as even shares :math:`Q_{ij}` would give it,

    .. math::
        \sum_j R_{ij} = 1, \qquad \sum_i a_i R_{ij} = \sum_i a_i Q_{ij}

    which for fully connected layers is the same amount for every parent. Which children it gets is decided by
    the squared distance d of the pose space between votes :math:`V_{ij}` and centers :math:`\mu_j`:

    .. math::
        \mu_j = \operatorname{mean}_i(V_{ij};\ a_i R_{ij}), \quad
        R_{ij} \propto \exp\Big(g_j - \frac{d(V_{ij}, \mu_j)}{\tau \bar d}\Big)

    Each step normalizes :math:`R` over the parents of each child and then changes the potentials
    :math:`g_j` by the logarithm of what a parent should get over what it gets (Sinkhorn 1967; Cuturi 2013).
    It is done with logarithms throughout, and ends with a normalization: couplings add up to 1 exactly, and
    the amounts of the parents are as close to equal as the number of steps allows.
    :math:`\bar d` is the mean distance of the sample's votes from their centers under the current assignment,
    so that one temperature fits poses of any scale.

    As all parents get their amount, the activation is a matter of agreement. Its odds are the mean activation
    :math:`\bar a_j` of the children in the field over the mean distance of the votes assigned to the parent:

    .. math::
        \operatorname{logit} a_j = \ln \bar a_j + \beta_j - \ln(\bar d_j + \varepsilon), \quad
        \bar a_j = \frac{\sum_i a_i Q_{ij}}{\sum_i Q_{ij}}, \quad
        \bar d_j = \frac{\sum_i a_i R_{ij}\, d(V_{ij}, \mu_j)}{\sum_i a_i R_{ij}}

    So :math:`e^{\beta_j}` is the mean squared distance at which a parent of active children is half active.

    Only the mean and the distance of the pose space are used: it serves poses that cannot be added, too.

    Args:
        parents: number of parent types; :math:`\beta` is learned per type and starts at 0.
        iterations: how many times the centers are computed.
        steps: Sinkhorn steps between two iterations.
        temperature: :math:`\tau`; the smaller, the harder the assignment, and the more steps it takes.
        learn_shares: learn the logits of :math:`Q_{ij}` per parent type, `log_share` `[J]`, so that some
            types get more than others. They start at 0, even shares.
        epsilon: added to every mean distance; it bounds the logit of votes that agree, and its slope.

    Example:
        >>> from torchcaps.votes import SharedVotes
        >>> votes = SharedVotes(torch.randn(2, 20, 8), torch.randn(4, 8, 16))
        >>> routed = SinkhornRouting(steps=100)(votes, torch.ones(2, 20), coupling=True)
        >>> routed.coupling[0, 0].sum(0).round(decimals=3)
        tensor([5., 5., 5., 5.])
    """

    def __init__(
        self,
        parents: int = 1,
        *,
        iterations: int = 3,
        steps: int = 5,
        temperature: float = 0.2,
        learn_shares: bool = False,
        epsilon: float = 0.01,
    ) -> None:
        super().__init__(parents, iterations=iterations)
        self.steps = check_count("steps", steps)
        self.temperature = check_number("temperature", temperature, above=True)
        self.epsilon = check_number("epsilon", epsilon, above=True)
        self.beta = nn.Parameter(torch.zeros(parents))
        self.log_share: nn.Parameter | None = None
        if check_flag("learn_shares", learn_shares):
            self.log_share = nn.Parameter(torch.zeros(parents))

    def supports(self, space: PoseSpace) -> bool:
        """Every space: it has a mean and a distance."""
        return True

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield centers and assignments after each update of the centers."""
        yield from iterate_precisely(self._iterate, votes, activation, start)

    def _iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None, limits: torch.dtype
    ) -> Iterator[RoutingOutput]:
        child = votes.gather(activation).unsqueeze(-1)
        even = votes.uniform() if self.log_share is None else _fixed_shares(votes, self.log_share)
        amount = (even * child).sum(2)
        least = min_mass(limits)
        log_mean_activation = (amount / even.sum(2).clamp(min=least)).clamp(min=least).log()
        potential = torch.zeros_like(amount)
        assignment = even if start is None else start
        for iteration in range(self.iterations):
            weight = assignment * child
            mass = weight.sum(2, keepdim=True)
            alive = mass > least
            share = realize(torch.where(alive, weight, 0.0) / torch.where(alive, mass, 1.0))
            center = votes.reduce(votes.space.mean, share)
            distance = realize(votes.reduce(partial(_distance, votes.space), center))
            spread = (share * distance).sum(2)
            logits = log_mean_activation + self.beta - (spread + self.epsilon).log()
            yield RoutingOutput(center, torch.sigmoid(logits), logits, assignment)
            if iteration < self.iterations - 1:
                total = mass.sum((1, 2, 3), keepdim=True).clamp(min=least)
                scale = (weight * distance).sum((1, 2, 3), keepdim=True) / total + self.epsilon
                cost = (distance / (self.temperature * scale)).clamp(max=MAX_SQ_DISTANCE)
                for _ in range(self.steps):
                    potential = potential + _shortage(
                        votes, potential.unsqueeze(2) - cost, child, amount, least
                    )
                assignment = votes.softmax(potential.unsqueeze(2) - cost)


def _fixed_shares(votes: Votes, log_share: Tensor) -> Tensor:
    """Shares that depend on the parent type only, `[B, P, I, J]`."""
    logits = log_share.to(votes.pose.dtype).expand(
        votes.batch, votes.positions, votes.children, votes.parents
    )
    return votes.softmax(logits)


def _distance(space: PoseSpace, vote: Tensor, center: Tensor) -> Tensor:
    return space.distance(vote, center.unsqueeze(2))


def _shortage(votes: Votes, logits: Tensor, child: Tensor, amount: Tensor, least: float) -> Tensor:
    """The logarithm of what each parent should get over what a softmax of these logits gives it; `[B, P, J]`.

    A parent that should get `least` or less is left as it is.

    Shape: logits `[B, P, I, J]`, child activations `[B, P, I, 1]`, amount `[B, P, J]`.
    """
    if not votes.children:
        return torch.zeros_like(amount)
    logits = logits - votes._peak(logits)
    log_share = logits - votes._total(logits.exp()).log()
    # Relative to the largest part that a live child brings, so that the sum is between 1 and I.
    part = torch.where(child > 0, child.detach().log() + log_share.detach(), -torch.inf)
    peak = part.amax(2, keepdim=True)
    peak = torch.where(peak.isfinite(), peak, 0.0)
    # A dead child may be far above the live ones; it counts for gradients only.
    mass = (child * (log_share - peak).clamp(max=60).exp()).sum(2)
    alive = (amount > least) & (mass > 0)
    log_mass = torch.where(alive, mass, 1.0).log() + peak.squeeze(2)
    return torch.where(alive, torch.where(alive, amount, 1.0).log() - log_mass, 0.0)
