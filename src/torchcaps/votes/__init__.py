r"""Votes: which child votes for which parent.

Votes are lazy: they hold poses and weights, and `tensor()` computes all of them, `[B, P, I, J, D]`:
B samples, P parent positions, I children in the field of one position, J parent types, D pose dimension.

=============  ==========================================  =================  =============
votes          who votes for whom                          weight             P, I
=============  ==========================================  =================  =============
`DenseVotes`   every child for every parent                `[N, J, ...]`      1, N
`SharedVotes`  the same, one weight per parent type        `[J, ...]`         1, any
`ConvVotes`    a K×K field of C types, with a stride       `[K·K·C, J, ...]`  H'·W', K·K·C
`ClassVotes`   every position, weights per type            `[C, J, ...]`      1, H·W·C
=============  ==========================================  =================  =============

The dots are the `weight_shape` of the pose space, which says how a pose becomes a vote (`torchcaps.poses`).
"""

from torchcaps.votes.base import Votes, at_least_float32
from torchcaps.votes.dense import DenseVotes, SharedVotes
from torchcaps.votes.grid import ClassVotes, ConvVotes, check_padding
from torchcaps.votes.reductions import agreement, centered_sum, weighted_sum

__all__ = [
    "ClassVotes",
    "ConvVotes",
    "DenseVotes",
    "SharedVotes",
    "Votes",
    "agreement",
    "at_least_float32",
    "centered_sum",
    "check_padding",
    "weighted_sum",
]
