from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import check_count, check_counts, check_flag
from torchcaps.kernels import heinsen as kernel
from torchcaps.routing.base import Routing, RoutingOutput, min_mass, precise_mean
from torchcaps.routing.covariance import MAX_SQ_DISTANCE, Diagonal
from torchcaps.routing.precision import iterate_precisely
from torchcaps.votes import Votes

T = TypeVar("T")


class HeinsenRouting(Routing):
    r"""Routing by a mixture whose activations are linear in what is used and ignored (Heinsen 2019).

    With votes :math:`V_{ij}`, child activations :math:`a_i` and assignments :math:`R_{ij}` that start at
    1 / (number of parents of child i), each iteration says how much of a child each parent uses and ignores,

    .. math::
        D^\text{use}_{ij} = a_i R_{ij}, \quad D^\text{ign}_{ij} = a_i - D^\text{use}_{ij},

    computes the logit of each parent from it, and fits a Gaussian to the votes,

    .. math::
        a_j = \sum_i \beta^\text{use}_{ij} D^\text{use}_{ij} - \sum_i \beta^\text{ign}_{ij} D^\text{ign}_{ij},
        \quad
        \mu_j = \frac{\sum_i D^\text{use}_{ij} V_{ij}}{\sum_i D^\text{use}_{ij}}, \quad
        \sigma_j^2 = \frac{\sum_i D^\text{use}_{ij} (V_{ij} - \mu_j)^2}{\sum_i D^\text{use}_{ij}} + \epsilon

    and, but for the last, assigns each child again, over **all** its parents, other positions included:

    .. math::
        R_{ij} = \operatorname{softmax}_j\big(\ln\operatorname{logistic}(a_j)
        + \ln\mathcal N(V_{ij}; \mu_j, \sigma_j^2)\big)

    The logit :math:`a_j` has no temperature: the weights :math:`\beta` say how much each child matters for
    each parent. They start at 0, so that every parent starts with logit 0 and activation 1/2. Inactive
    children change nothing. A parent whose assignments are all 0 gets no child in later iterations either;
    its pose is 0.

    Args:
        parents: number of parent types.
        iterations: how many times parents are computed.
        bias: learn a vector per row and parent type, from 0, that is added to the votes, as published; needs
            `pose_dim`. It is added after the coordinates of a class layer.
        epsilon: added to every variance.
        pose_dim: numbers in a parent's pose; only a bias needs it.
        rows: leading dimensions of the layer's weight, such as `(N,)` for N children: each row has its own
            :math:`\beta` and bias. By default all children share them.

    Shape: `beta_use` and `beta_ignore` are `[*rows, parents]`, `bias` is `[*rows, parents, pose_dim]`.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.randn(2, 6, 16), torch.randn(6, 3, 4, 4), "matrix")
        >>> routed = HeinsenRouting(parents=3, rows=(6,))(votes, torch.rand(2, 6))
        >>> routed.pose.shape, routed.activation.shape
        (torch.Size([2, 1, 3, 16]), torch.Size([2, 1, 3]))
    """

    def __init__(
        self,
        parents: int = 1,
        *,
        iterations: int = 3,
        bias: bool = False,
        epsilon: float = 1e-5,
        pose_dim: int | None = None,
        rows: tuple[int, ...] = (),
    ) -> None:
        super().__init__(parents, iterations=iterations)
        self.gaussian = Diagonal(epsilon)
        self.rows = check_counts("rows", rows)
        self.beta_use = nn.Parameter(torch.zeros(*self.rows, parents))
        self.beta_ignore = nn.Parameter(torch.zeros(*self.rows, parents))
        self.bias: nn.Parameter | None = None
        if check_flag("bias", bias):
            self.bias = nn.Parameter(torch.zeros(*self.rows, parents, check_count("pose_dim", pose_dim)))

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the parents after each fit of the mixture."""
        yield from iterate_precisely(self._iterate, votes, activation, start)

    def _iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None, limits: torch.dtype
    ) -> Iterator[RoutingOutput]:
        gaussian = self.gaussian.limited(limits)
        child = votes.gather(activation).unsqueeze(-1)
        beta_use, beta_ignore = self._per_vote(votes, self.beta_use), self._per_vote(votes, self.beta_ignore)
        reduce = partial(self._reduce, votes, self._bias_per_vote(votes))
        assignment = votes.uniform() if start is None else start
        for iteration in range(self.iterations):
            used = child * assignment
            logits = (beta_use * used - beta_ignore * (child - used)).sum(2)
            mean, low, mass, share = reduce(partial(precise_mean, limits=limits), used)
            yield RoutingOutput(self._shift(mean), torch.sigmoid(logits), logits, assignment)
            if iteration < self.iterations - 1:
                spread = reduce(gaussian.fit, share, mean, low)
                log_density = reduce(gaussian.log_density, mean, spread, low)
                # A parent without votes has no Gaussian: one around 0 of variance ε would attract votes of 0.
                alive = (mass > min_mass(limits)).unsqueeze(2)
                score = torch.where(alive, log_density + F.logsigmoid(logits).unsqueeze(2), -MAX_SQ_DISTANCE)
                assignment = votes.softmax(score)
                # Adds 0; for the gradients, see EMRouting.
                assignment = assignment + assignment.detach() * (1 - votes._total(assignment))

    def fused(self, votes: Votes, activation: Tensor) -> RoutingOutput | None:
        """See `Routing.fused`; subclasses use the plain form."""
        if type(self) is not HeinsenRouting or type(self.gaussian) is not Diagonal:
            return None
        found = kernel.route(
            votes,
            activation,
            self.beta_use,
            self.beta_ignore,
            self.bias if self.rows else None,
            iterations=self.iterations,
            epsilon=self.gaussian.epsilon,
        )
        return None if found is None else RoutingOutput(self._shift(found[0]), *found[1:])

    def _shift(self, pose: Tensor) -> Tensor:
        """The pose with the bias, if it is the same for all votes: it moves their mean and nothing else."""
        return pose if self.bias is None or self.rows else pose + self.bias

    def _per_vote(self, votes: Votes, values: Tensor) -> Tensor:
        """Numbers `[*rows, parents]` in a shape that broadcasts with `[B, P, I, J]`."""
        return votes.expand_rows(values) if self.rows else values

    def _bias_per_vote(self, votes: Votes) -> Tensor | None:
        """The bias of each vote, `[1, P, I, J, D]`, if it differs from child to child."""
        if self.bias is None or not self.rows:
            return None
        return torch.stack([votes.expand_rows(values) for values in self.bias.unbind(-1)], -1)

    @staticmethod
    def _reduce(votes: Votes, bias: Tensor | None, function: Callable[..., T], *others: Tensor) -> T:
        """`votes.reduce`, for votes with their bias."""
        if bias is None:
            return votes.reduce(function, *others)
        return votes.reduce(lambda vote, bias, *others: function(vote + bias, *others), bias, *others)

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        super()._check(votes, activation, start)
        rows = tuple(votes.weight.shape[: votes.row_dims])
        if self.rows not in ((), rows):
            raise ValueError(f"the routing was built for rows={self.rows}, the layer has rows={rows}")
        if self.bias is not None and self.bias.shape[-1] != votes.pose_dim:
            size = self.bias.shape[-1]
            raise ValueError(
                f"the routing was built for pose_dim={size}, the layer has pose_dim={votes.pose_dim}"
            )
