"""Laws that every capsule layer keeps, as assertions for your own layers and routings too.

Each takes a `CapsuleLayer` and `Capsules` that fit it, and raises `AssertionError` with what should hold and
what was found.

Example:
    >>> import torch
    >>> from torchcaps import Capsules, DenseCaps
    >>> layer, children = DenseCaps(6, 8, 3, 4), Capsules.from_vectors(torch.randn(2, 6, 8))
    >>> assert_couplings_normalized(layer, children)
    >>> assert_batch_independent(layer, children)
    >>> assert_child_permutation(layer, children)
    >>> assert_iterations(layer, children)
    >>> assert_start_used(layer, children)
    >>> assert_finite_everywhere(layer, children)
    >>> assert_gradcheck(layer, children)
    >>> assert_gradient_accurate(layer, children)
"""

from torchcaps.testing.iterate import assert_iterations, assert_padding_never_votes, assert_start_used
from torchcaps.testing.numbers import assert_finite_everywhere, assert_gradcheck, assert_gradient_accurate
from torchcaps.testing.symmetries import (
    assert_batch_independent,
    assert_child_permutation,
    assert_couplings_normalized,
    assert_viewpoint_equivariant,
)

__all__ = [
    "assert_batch_independent",
    "assert_child_permutation",
    "assert_couplings_normalized",
    "assert_finite_everywhere",
    "assert_gradcheck",
    "assert_gradient_accurate",
    "assert_iterations",
    "assert_padding_never_votes",
    "assert_start_used",
    "assert_viewpoint_equivariant",
]
