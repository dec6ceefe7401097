from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_flag
from torchcaps._compiling import realize
from torchcaps.capsules import SQUASHES, length, squash
from torchcaps.kernels import dynamic as kernel
from torchcaps.routing.base import Routing, RoutingOutput, length_logit, min_mass
from torchcaps.votes import Votes, agreement, at_least_float32, weighted_sum


def _fixed(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The same function of votes, without a gradient for the votes."""
    return lambda vote, other: function(vote.detach(), other)


def logits_of(votes: Votes, coupling: Tensor) -> Tensor:
    """The logits that give this coupling, `[B, P, I, J]`; those of even shares are 0.

    A share of 0 has a low but finite logit, so that gradients stay finite. Logits are relative to even
    shares, so that in leaky routing "no parent", with logit 0, is as likely as without a start.

    Example:
        >>> from torchcaps.votes import SharedVotes
        >>> votes = SharedVotes(torch.ones(1, 1, 8), torch.ones(4, 8, 16))
        >>> logits_of(votes, torch.tensor([[[[0.25, 0.5, 0.25, 0.0]]]]))
        tensor([[[[  0.0000,   0.6931,   0.0000, -44.6654]]]])
    """
    least = min_mass(coupling.dtype)
    return coupling.clamp(min=least).log() - votes.uniform().clamp(min=least).log()


class DynamicRouting(Routing):
    r"""Routing by agreement (Sabour, Frosst, Hinton 2017): a soft k-means by dot product.

    With votes :math:`\hat u_{ij}` and logits :math:`b_{ij}` that start at 0, r times:

    .. math::
        c_{ij} = \operatorname{softmax}_j(b_{ij}), \quad
        v_j = \operatorname{squash}\Big(\sum_i c_{ij} \hat u_{ij} + \text{bias}_j\Big), \quad
        b_{ij} \leftarrow b_{ij} + \langle \hat u_{ij}, v_j \rangle

    so r iterations are r weighted sums and r − 1 updates of the logits. The length of :math:`v_j` is the
    parent's activation. A vector capsule's own activation is the length of its pose, so its votes carry it
    already; a separate activation, as matrix capsules have, is not used.

    Couplings given as a `start` are what the paper calls log priors: the logits start at their logarithm.

    Args:
        parents: number of parent types.
        iterations: r.
        update: `"accumulate"` as in the paper; `"fixed_point"` sets :math:`b_{ij} = \langle \hat u_{ij},
            v_j \rangle` instead, which converges where accumulation drives the coupling to 0 or 1; the log
            priors of a start are added each time.
        gradient: through `"all"` iterations, or the `"last"` only, its coupling taken as given.
        bias: learn a vector per parent type, added before the squash (as the authors' code does, from 0.1);
            needs `pose_dim`.
        leaky: let a child also choose none of the parents.
        squash: a member of the squash family.
        pose_dim: numbers in a parent's pose; only a bias needs it.

    Example:
        >>> from torchcaps.votes import SharedVotes
        >>> votes = SharedVotes(torch.randn(2, 20, 8), torch.randn(3, 8, 16))
        >>> routed = DynamicRouting(iterations=3)(votes, torch.ones(2, 20), coupling=True)
        >>> routed.pose.shape, routed.coupling.shape
        (torch.Size([2, 1, 3, 16]), torch.Size([2, 1, 20, 3]))
    """

    uses_activation: ClassVar[bool] = False
    has_lengths: ClassVar[bool] = True

    def __init__(
        self,
        parents: int = 1,
        *,
        iterations: int = 3,
        update: str = "accumulate",
        gradient: str = "all",
        bias: bool = False,
        leaky: bool = False,
        squash: str = "hinton",
        pose_dim: int | None = None,
    ) -> None:
        super().__init__(parents, iterations=iterations)
        self.update = check_choice("update", update, ("accumulate", "fixed_point"))
        self.gradient = check_choice("gradient", gradient, ("all", "last"))
        self.squash = check_choice("squash", squash, tuple(SQUASHES))
        self.leaky = check_flag("leaky", leaky)
        self.bias: nn.Parameter | None = None
        if check_flag("bias", bias):
            size = check_count("pose_dim", pose_dim)
            self.bias = nn.Parameter(torch.full((parents, size), 0.1))

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield poses, lengths and couplings after each of the r weighted sums."""
        coupling = None if start is None else at_least_float32(start)
        if coupling is None:
            first = votes.pose.new_zeros(votes.batch, votes.positions, votes.children, votes.parents)
        else:
            if self.gradient == "last":
                coupling = coupling.detach()
            first = logits_of(votes, coupling)
        logits = first
        for iteration in range(self.iterations):
            last = iteration == self.iterations - 1
            fixed = self.gradient == "last" and not last
            if coupling is None:
                coupling = realize(votes.softmax(logits, leak=self.leaky))
            pose = self._parents(votes.reduce(_fixed(weighted_sum) if fixed else weighted_sum, coupling))
            presence = length(pose)
            yield RoutingOutput(pose, presence, length_logit(presence), coupling)
            if not last:
                if self.gradient == "last":
                    pose = pose.detach()
                agreed = votes.reduce(_fixed(agreement) if fixed else agreement, pose)
                logits = (logits if self.update == "accumulate" else first) + agreed
                coupling = None

    def fused(self, votes: Votes, activation: Tensor) -> RoutingOutput | None:
        """See `Routing.fused`; the kernel has the paper's squash, and does not serve subclasses."""
        if type(self) is not DynamicRouting or self.squash != "hinton":
            return None
        pose = kernel.route(
            votes,
            self.bias,
            iterations=self.iterations,
            accumulate=self.update == "accumulate",
            leaky=self.leaky,
            through_all=self.gradient == "all",
        )
        if pose is None:
            return None
        presence = length(pose)
        return RoutingOutput(pose, presence, length_logit(presence))

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        super()._check(votes, activation, start)
        if self.bias is not None and self.bias.shape[1] != votes.pose_dim:
            size = self.bias.shape[1]
            raise ValueError(
                f"the routing was built for pose_dim={size}, the layer has pose_dim={votes.pose_dim}"
            )

    def _parents(self, total: Tensor) -> Tensor:
        if self.bias is not None:
            total = total + self.bias
        return squash(total, self.squash)
