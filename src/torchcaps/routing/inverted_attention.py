from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import check_count, check_flag, check_tensor
from torchcaps._compiling import realize
from torchcaps.routing.base import Routing, RoutingOutput, without_autocast
from torchcaps.votes import Votes, agreement, at_least_float32, weighted_sum


class InvertedAttentionRouting(Routing):
    r"""Inverted dot-product attention routing (Tsai, Srivastava, Goh, Salakhutdinov 2020).

    Attention whose softmax is over the parents (the queries), so that the parents compete for each child.
    From votes :math:`v_{ij}` with d numbers and couplings :math:`r_{ij}` that start even,

    .. math::
        p_j = \operatorname{LayerNorm}\Big(\sum_i r_{ij} v_{ij}\Big), \quad
        o_{ij} = \frac{\langle p_j, v_{ij} \rangle}{\sqrt d}, \quad
        r_{ij} = \operatorname{softmax}_j(o_{ij})

    LayerNorm takes the d numbers of one pose; its scale and shift are shared by all parents. The paper has no
    activations: its class scores are one linear map d → 1 with a bias, shared by all class capsules. Here
    this map belongs to the routing,

    .. math:: z_j = \langle w, p_j \rangle + b, \quad a_j = \operatorname{logistic}(z_j)

    and the activations of the **children are not used**.

    Two differences from the paper. There the parent types at one position compete; here all parents of a
    child do, other positions included, as in every routing of this library. And if `pose_dim` is not given,
    so that the routing fits layers of any size, LayerNorm has no scale and shift, and the logit is the
    agreement of the parent with all its votes, :math:`\sum_i r_{ij} o_{ij}`.

    This is the sequential form: one layer finishes before the next begins. `ConcurrentCaps` updates a stack
    of layers at once, which is what the paper recommends.

    Args:
        parents: number of parent types; all share the same parameters.
        iterations: how many times the poses are computed.
        score: learn the linear map. Without it, as in layers whose activations nothing reads, the logit is
            the agreement of the parent with all its votes.
        pose_dim: numbers in a parent's pose, d; a layer gives it to a routing that it makes by name.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.randn(2, 6, 16), torch.randn(6, 3, 4, 4), "matrix")
        >>> routing = InvertedAttentionRouting(parents=3, pose_dim=16)
        >>> routed = routing(votes, torch.ones(2, 6), coupling=True)
        >>> routed.pose.shape, routed.coupling.shape
        (torch.Size([2, 1, 3, 16]), torch.Size([2, 1, 6, 3]))
    """

    uses_activation: ClassVar[bool] = False

    def __init__(
        self, parents: int = 1, *, iterations: int = 2, score: bool = True, pose_dim: int | None = None
    ) -> None:
        super().__init__(parents, iterations=iterations)
        self.pose_dim = None if pose_dim is None else check_count("pose_dim", pose_dim)
        score = check_flag("score", score)
        self.norm: nn.LayerNorm | None = None
        self.score: nn.Linear | None = None
        if self.pose_dim is not None:
            self.norm = nn.LayerNorm(self.pose_dim)
            if score:
                self.score = nn.Linear(self.pose_dim, 1)

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the parents after each weighted sum of the votes."""
        routed = self._parents(votes, votes.uniform() if start is None else start)
        yield routed
        for _ in range(self.iterations - 1):
            routed = self._parents(votes, self._attend(votes, routed.pose))
            yield routed

    def step(self, votes: Votes, activation: Tensor, parents: Tensor) -> RoutingOutput:
        """The parents after one iteration that starts from given poses of the parents.

        Args:
            votes: the votes of the children.
            activation: of the children, `[B, N]`; not used, as in `iterate`.
            parents: poses to attend with, `[B, P, J, D]`.

        Example:
            >>> from torchcaps.votes import SharedVotes
            >>> votes = SharedVotes(torch.randn(2, 6, 8), torch.randn(3, 8, 4))
            >>> first, second = InvertedAttentionRouting(iterations=2).history(votes, torch.ones(2, 6))
            >>> again = InvertedAttentionRouting().step(votes, torch.ones(2, 6), first.pose)
            >>> torch.equal(again.pose, second.pose)
            True
        """
        self._check(votes, activation, None)
        sizes = {"B": votes.batch, "P": votes.positions, "J": votes.parents, "D": votes.pose_dim}
        check_tensor("parents", parents, "B P J D", **sizes)
        with without_autocast(votes.pose):
            return self._parents(votes, self._attend(votes, at_least_float32(parents)))

    def _attend(self, votes: Votes, pose: Tensor) -> Tensor:
        return realize(votes.softmax(votes.reduce(agreement, pose) / votes.pose_dim**0.5))

    def _parents(self, votes: Votes, coupling: Tensor) -> RoutingOutput:
        total = votes.reduce(weighted_sum, coupling)
        pose = F.layer_norm(total, total.shape[-1:])
        if self.norm is not None:
            pose = pose * self.norm.weight + self.norm.bias
        if self.score is None:
            logits = (pose * total).sum(-1) / votes.pose_dim**0.5
        elif not isinstance(self.score, nn.Linear):
            raise ValueError(
                "the score layer of inverted_attention cannot be quantized: name the layers to quantize, as "
                "in quantize_dynamic(model, {'backbone'}), instead of giving the type nn.Linear"
            )
        else:
            logits = (pose * self.score.weight[0]).sum(-1) + self.score.bias
        return RoutingOutput(pose, torch.sigmoid(logits), logits, coupling)

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        super()._check(votes, activation, start)
        if self.pose_dim not in (None, votes.pose_dim):
            raise ValueError(
                f"the routing was built for pose_dim={self.pose_dim}, the layer has pose_dim={votes.pose_dim}"
            )
