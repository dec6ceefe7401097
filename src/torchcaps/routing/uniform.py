from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor

from torchcaps._checks import check_choice, check_flag
from torchcaps.capsules import SQUASHES, length, squash
from torchcaps.routing.base import Routing, RoutingOutput, length_logit, mass_and_shares
from torchcaps.votes import Votes


class UniformRouting(Routing):
    r"""No routing: every child is shared evenly among its parents. The baseline for every routing.

    .. math:: v_j = \operatorname{squash}\Big(\sum_i \tfrac{1}{|\text{parents of } i|} \hat u_{ij}\Big)

    The activation is the length of the pose. There is one iteration. As in dynamic routing, a child's
    activation counts only as the length of its pose.

    Args:
        parents: number of parent types.
        squash: a member of the squash family.
        average: take the mean of the votes instead of their sum in shares (Gu and Tresp 2020), so that the
            length does not grow with the number of children.

    Example:
        >>> import torch
        >>> from torchcaps.votes import SharedVotes
        >>> votes = SharedVotes(torch.ones(1, 4, 2), torch.eye(2).repeat(2, 1, 1))
        >>> UniformRouting()(votes, torch.ones(1, 4), coupling=True).coupling[0, 0, 0]
        tensor([0.5000, 0.5000])
    """

    uses_activation: ClassVar[bool] = False
    has_lengths: ClassVar[bool] = True

    def __init__(self, parents: int = 1, *, squash: str = "hinton", average: bool = False) -> None:
        super().__init__(parents, iterations=1)
        self.average = check_flag("average", average)
        self.squash = check_choice("squash", squash, tuple(SQUASHES))

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the only iteration."""
        coupling = votes.uniform() if start is None else start
        # Even shares are the same for all parents: then no votes are needed, see `Votes.total`. Votes from
        # elsewhere may have other shares.
        even = start is None and votes._is_ours
        share = coupling[..., :1] if even else coupling
        if self.average:
            share = mass_and_shares(share)[1]
        # Votes that share their weight have digits in common, which a plain sum of many would round away;
        # their mean needs no votes either.
        centered = self.average and not (even and votes._own_rows)
        pose = squash(votes.mean(share) if centered else votes.total(share), self.squash)
        presence = length(pose)
        yield RoutingOutput(pose, presence, length_logit(presence), coupling)
