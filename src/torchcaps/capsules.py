from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_floating

# Squares of float32 numbers under- or overflow beyond these lengths: there the square is taken of a multiple.
SHORT, LONG = 1e-15, 1e15
# A power of two, so that no digit changes.
FACTOR = 2.0**70


def length(vectors: Tensor, *, keepdim: bool = False) -> Tensor:
    r"""Euclidean length over the last dimension, with gradient 0 (not NaN) at the zero vector.

    It is as accurate for lengths from 1e-37 to 1e37 as for a length of 1, although their squares are no
    float32 numbers.

    Shape: `[..., D]` to `[...]`, or `[..., 1]` with `keepdim`.

    Example:
        >>> length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([5., 0.])
    """
    check_floating("vectors", vectors)
    if vectors.dtype in (torch.float16, torch.bfloat16):
        return length(vectors.float(), keepdim=keepdim).to(vectors.dtype)  # 300² is too large for float16
    square = (vectors * vectors).sum(-1, keepdim=keepdim)
    short, long = square < SHORT**2, square > LONG**2
    extreme = short | long
    # The square root's gradient at 0 is infinite: keep 0 out of it, then put it back.
    ordinary = torch.where(extreme, 1.0, square).sqrt()
    factor = torch.where(short, FACTOR, torch.where(long, 1 / FACTOR, 1.0)).to(vectors.dtype)
    multiple = vectors * (factor if keepdim else factor.unsqueeze(-1))
    square = (multiple * multiple).sum(-1, keepdim=keepdim)
    zero = square == 0
    scaled = torch.where(zero, 1.0, square).sqrt() / factor
    return torch.where(extreme, torch.where(zero, 0.0, scaled), ordinary)


def _saturating(n: Tensor, offset: float) -> Tensor:
    """n / (offset + n²). Its gradient has a term 1 / n³, so that a large n needs another expression."""
    large = n > 1e10
    high, low = torch.where(large, n, 1.0), torch.where(large, 1.0, n)
    return torch.where(large, 1 / (high + offset / high), low / (offset + low * low))


def _hinton(n: Tensor) -> Tensor:
    return _saturating(n, 1.0)


def _half(n: Tensor) -> Tensor:
    return _saturating(n, 0.5)


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

    Value and gradient are finite at the zero vector, and accurate for lengths from 1e-37 to 1e18.

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
    # What reaches the length of a short vector is as small as the vector, and would underflow on the way
    # through `length`. The gradient of a length is the unit vector: here it is that by construction. (So
    # second derivatives at short vectors lack the change of the direction.)
    unit = (vectors / torch.where(zero, 1.0, n)).detach()
    n = torch.where((n < 2 * SHORT) & ~zero, (vectors * unit).sum(-1, keepdim=True), n)
    return vectors * torch.where(zero, at_zero, scale(torch.where(zero, 1.0, n)))


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
