r"""Votes are geometry: who votes for whom, and how a child's pose becomes a vote.

A vote is lazy: it holds poses and weights, and `tensor()` multiplies them out to `[B, P, I, J, D]`:
B samples, P parent positions, I children in the field of one position, J parent types, D pose size.

=============  =====================================  =============================  =============
votes          who votes for whom                     weight                         P, I
=============  =====================================  =============================  =============
`DenseVotes`   every child for every parent           `[N, J, ...]`                  1, N
`SharedVotes`  the same, one matrix per parent type   `[J, ...]`                     1, any
`ConvVotes`    a K×K field of types C, with a stride  `[K·K·C, J, ...]`              H'·W', K·K·C
`ClassVotes`   every place, matrices per type         `[C, J, ...]`                  1, H·W·C
=============  =====================================  =============================  =============

The dots are `D_in, D_out` for vector poses, voted as :math:`W u`, and `P, P` for matrix poses, voted as
:math:`M W`; a matrix pose is flattened row by row wherever it is stored.
"""

from torchcaps.votes.base import Votes, at_least_float32
from torchcaps.votes.compute import INLINE_VOTES, agreement, realize, transform, weighted_sum
from torchcaps.votes.dense import DenseVotes, SharedVotes
from torchcaps.votes.grid import ClassVotes, ConvVotes, check_padding

__all__ = [
    "INLINE_VOTES",
    "ClassVotes",
    "ConvVotes",
    "DenseVotes",
    "SharedVotes",
    "Votes",
    "agreement",
    "at_least_float32",
    "check_padding",
    "realize",
    "transform",
    "weighted_sum",
]
