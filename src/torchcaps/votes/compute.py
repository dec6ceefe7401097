"""How votes are multiplied out: once and for all, or, in compiled code, inside every sum over them.

Plainly, the vote tensor is made once and every sum over it reads it. `torch.compile` can do better: it turns
a chain of elementwise operations that ends in a sum into one loop, so votes written elementwise are made
inside the loop that adds them up, and are in memory never. Three things make it so, and all stand here:

- 4×4 products are written as four multiply-adds, for a matrix product is a library's, with memory behind it;
- each sum casts its own votes (`recompute`), for what several loops read is computed once and stored;
- what is small and read often, poses and matrices, is stored first (`kept`), parents innermost, so that
  neighboring lanes or threads read neighboring numbers.

Vector poses keep their matrix product: with 8 to 128 numbers in a pose, casting is what costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# What `torch.compile` is to be told so that it inlines votes: by default it stores whatever reads more than 4
# (or in the end 8 to 12) numbers, and one number of a 4×4 vote reads 8, one of its gradient twice as many.
INLINE_VOTES: dict[str, str | int | bool | Callable[..., Any]] = {
    "realize_reads_threshold": 64,
    "realize_acc_reads_threshold": 64,
    "realize_opcount_threshold": 256,
}

_exporting = getattr(torch.compiler, "is_exporting", lambda: False)


def compiling() -> bool:
    """Whether this runs as part of `torch.compile`; an exported graph gets the plain form."""
    return torch.compiler.is_compiling() and not _exporting()


@torch.library.custom_op("torchcaps::materialize", mutates_args=())
def materialize(values: Tensor, mark: int) -> Tensor:
    """A contiguous copy that compiled code stores; copies with different marks are never made one."""
    return values.clone(memory_format=torch.contiguous_format)


@materialize.register_fake
def _(values: Tensor, mark: int) -> Tensor:
    return values.new_empty(values.shape)


def _keep_gradient(context: object, gradient: Tensor) -> tuple[Tensor, None]:
    return gradient, None


materialize.register_autograd(_keep_gradient)


def realize(values: Tensor) -> Tensor:
    """The same values, computed here and not again by every loop that reads them."""
    return materialize(values, 0) if compiling() else values


def transform(pose: Tensor, weight: Tensor, *, matrix: bool) -> Tensor:
    """Multiply the pose of each child by its matrix for each parent.

    Shape: pose `[..., I, D_in]`, weight `[I, J, D_in, D_out]` (or `[I, J, P, P]`) to `[..., I, J, D_out]`.

    Example:
        >>> transform(torch.ones(2, 6, 8), torch.ones(6, 3, 8, 16), matrix=False).shape
        torch.Size([2, 6, 3, 16])
    """
    if not matrix:
        return torch.einsum("...id,ijde->...ije", pose, weight)
    size = weight.shape[-1]
    pose = pose.unflatten(-1, (size, size))
    if not compiling():
        return torch.einsum("...ipq,ijqr->...ijpr", pose, weight).flatten(-2)
    weight = realize(weight.permute(0, 2, 3, 1))  # [I, q, r, J]
    terms = [pose[..., q, None, None] * weight[:, None, q] for q in range(size)]  # [..., I, p, r, J]
    return sum(terms[1:], terms[0]).flatten(-3, -2).transpose(-1, -2)


def recompute(
    function: Callable[..., Any], cast: Callable[[Tensor], Tensor], field: Tensor, mark: int, *others: Tensor
) -> Any:
    """`function(cast(field), *others)` with votes of its own, in the backward pass again."""

    def run(field: Tensor, *others: Tensor) -> Any:
        return function(cast(materialize(field, mark)), *others)

    return checkpoint(run, field, *others, use_reentrant=False, preserve_rng_state=False)


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
