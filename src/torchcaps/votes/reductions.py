"""Sums over votes, written so that `torch.compile` can compute the votes inside them."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps._compiling import compiling, realize


def weighted_sum(votes: Tensor, share: Tensor) -> Tensor:
    """Sum over children, `[B, P, I, J, D]` and `[B, P, I, J]` to `[B, P, J, D]`."""
    if compiling():
        return (share.unsqueeze(-1) * votes).sum(2)
    return torch.einsum("bpij,bpijd->bpjd", share, votes)


def centered_sum(votes: Tensor, share: Tensor) -> Tensor:
    r"""`weighted_sum` under shares that add up to 1 or 0, with accurate gradients.

    For any constant c it is also :math:`c + \sum_i s_i (V_i - c)`. With the sum itself for c, the slope with
    respect to a share is :math:`V_i - c` in place of :math:`V_i`: what all votes have in common cancels
    exactly, not after it was rounded.
    """
    center = realize(weighted_sum(votes, share).detach())
    return center + weighted_sum(votes - center.unsqueeze(2), share)


def agreement(votes: Tensor, pose: Tensor) -> Tensor:
    """Dot product of each vote with its parent, `[B, P, I, J, D]` and `[B, P, J, D]` to `[B, P, I, J]`."""
    if compiling():
        return (votes * pose.unsqueeze(2)).sum(-1)
    return torch.einsum("bpijd,bpjd->bpij", votes, pose)
