"""Sums over votes, written so that `torch.compile` can compute the votes inside them."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps._compiling import compiling


def weighted_sum(votes: Tensor, share: Tensor) -> Tensor:
    """Sum over children, `[B, P, I, J, D]` and `[B, P, I, J]` to `[B, P, J, D]`."""
    if compiling():
        return (share.unsqueeze(-1) * votes).sum(2)
    return torch.einsum("bpij,bpijd->bpjd", share, votes)


def agreement(votes: Tensor, pose: Tensor) -> Tensor:
    """Dot product of each vote with its parent, `[B, P, I, J, D]` and `[B, P, J, D]` to `[B, P, I, J]`."""
    if compiling():
        return (votes * pose.unsqueeze(2)).sum(-1)
    return torch.einsum("bpijd,bpjd->bpij", votes, pose)
