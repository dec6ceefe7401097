from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_floating
from torchcaps._pytrees import serializable


def length(vectors: Tensor, *, keepdim: bool = False) -> Tensor:
    r"""Euclidean length over the last dimension, with gradient 0 (not NaN) at the zero vector.

    A vector whose square is too small for all digits, in float32 one shorter than 1e-19, counts as 0.

    Shape: `[..., D]` to `[...]`, or `[..., 1]` with `keepdim`.

    Example:
        >>> length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([5., 0.])
    """
    check_floating("vectors", vectors)
    square = (vectors * vectors).sum(-1, keepdim=keepdim)
    zero = square < torch.finfo(square.dtype).tiny
    # The square root's gradient at 0 is infinite: keep 0 out of it, then put it back.
    return torch.where(zero, 0.0, torch.where(zero, 1.0, square).sqrt())


def _hinton(n: Tensor) -> Tensor:
    return n / (1 + n * n)


def _half(n: Tensor) -> Tensor:
    return n / (0.5 + n * n)


def _tanh(n: Tensor) -> Tensor:
    return torch.tanh(n) / n


def _exp(n: Tensor) -> Tensor:
    return -torch.expm1(-n) / n


def _ratio(n: Tensor) -> Tensor:
    return 1 / (1 + n)


def _none(n: Tensor) -> Tensor:
    return torch.ones_like(n)


# Each gives f(n) / n for a length n > 0, and its limit at n = 0.
SQUASHES: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "hinton": (_hinton, 0.0),
    "half": (_half, 0.0),
    "tanh": (_tanh, 1.0),
    "exp": (_exp, 1.0),
    "ratio": (_ratio, 1.0),
    "none": (_none, 1.0),
}


def squash(vectors: Tensor, kind: str = "hinton") -> Tensor:
    r"""Shorten vectors to a length below 1, direction kept: :math:`f(\|s\|)\, s / \|s\|`.

    ========  ==============================  ===========================================
    kind      :math:`f(n)`
    ========  ==============================  ===========================================
    hinton    :math:`n^2 / (1 + n^2)`         Sabour et al. 2017; shrinks short vectors
    half      :math:`n^2 / (0.5 + n^2)`       shrinks short vectors less
    tanh      :math:`\tanh n`
    exp       :math:`1 - e^{-n}`
    ratio     :math:`n / (1 + n)`
    none      :math:`n`                       the vector as it is: its length may exceed 1
    ========  ==============================  ===========================================

    Value and gradient are finite at the zero vector, and for any length up to 1e18.

    Shape: `[..., D]` to `[..., D]`.

    Example:
        >>> squash(torch.tensor([3.0, 4.0])) * 26 / 25
        tensor([0.6000, 0.8000])
        >>> squash(torch.zeros(2), "tanh")
        tensor([0., 0.])
    """
    scale, at_zero = SQUASHES[check_choice("kind", kind, tuple(SQUASHES))]
    check_floating("vectors", vectors)
    if vectors.dtype in (torch.float16, torch.bfloat16):
        return squash(vectors.float(), kind).to(vectors.dtype)  # float16 could not hold the square of 300
    n = length(vectors, keepdim=True)
    zero = n == 0
    return vectors * torch.where(zero, at_zero, scale(torch.where(zero, 1.0, n)))


@serializable
class Capsules(NamedTuple):
    """What passes between layers: the pose of each entity, and whether it is present.

    Attributes:
        pose: `[B, N, D]`, or `[B, H, W, C, D]` on a grid. Matrix poses are flattened row by row.
        activation: `[B, N]` or `[B, H, W, C]`, from 0 to 1.

    Example:
        >>> capsules = Capsules.from_vectors(torch.full((2, 6, 4), 0.25))
        >>> capsules.pose.shape, capsules.activation[0, 0]
        (torch.Size([2, 6, 4]), tensor(0.5000))
    """

    pose: Tensor
    activation: Tensor

    @classmethod
    def from_vectors(cls, vectors: Tensor) -> Capsules:
        """Vector capsules: the length of each vector is its activation."""
        return cls(vectors, length(vectors))

    def flatten(self) -> Capsules:
        """Drop the grid: `[B, H, W, C, D]` to `[B, H·W·C, D]`, ordered by row, column, type."""
        return Capsules(self.pose.flatten(1, -2), self.activation.flatten(1))


@serializable
class Instances(NamedTuple):
    """A set of things that were found: of what kind each one is, its pose, and whether it is present.

    Unlike `Capsules`, whose place in the tensor says what they are, instances come in any order, and several
    may be of one kind. Fewer than K are padded with activation 0.

    Attributes:
        kind: int64 `[B, K]`.
        pose: `[B, K, D]`.
        activation: `[B, K]`, from 0 to 1.
    """

    kind: Tensor
    pose: Tensor
    activation: Tensor
