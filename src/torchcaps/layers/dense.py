from __future__ import annotations

from math import isqrt
from typing import Any

from torch import nn

from torchcaps._checks import check_count, check_flag
from torchcaps.capsules import Capsules
from torchcaps.layers.base import CapsuleLayer, initial_weight
from torchcaps.routing import Routing
from torchcaps.votes import DenseVotes, SharedVotes


def pose_sides(in_dim: int, out_dim: int, matrix: bool) -> tuple[int, int]:
    """The last two sizes of a weight between poses of so many numbers."""
    check_count("in_dim", in_dim)
    check_count("out_dim", out_dim)
    if not check_flag("matrix", matrix):
        return in_dim, out_dim
    side = isqrt(in_dim)
    if side * side != in_dim or in_dim != out_dim:
        raise ValueError(f"matrix poses need in_dim = out_dim = P·P, got in_dim={in_dim}, out_dim={out_dim}")
    return side, side


class DenseCaps(CapsuleLayer):
    """Every child votes for every parent, with a matrix of its own per pair.

    Args:
        in_capsules: number of children, N.
        in_dim: numbers in a child's pose.
        out_capsules: number of parents, J.
        out_dim: numbers in a parent's pose.
        matrix: poses are P×P matrices (`in_dim = out_dim = P·P`) rather than vectors.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`, for a routing given by name.

    Shape: `Capsules` of pose `[B, N, in_dim]` (a grid of N capsules in all will do, and so will a bare tensor
    of vectors) to `Capsules` of pose `[B, J, out_dim]`; `weight` is `[N, J, in_dim, out_dim]`, or
    `[N, J, P, P]`; couplings are `[B, N, J]`.

    Example:
        >>> import torch
        >>> layer = DenseCaps(1152, 8, 10, 16, iterations=3)
        >>> digits = layer(Capsules.from_vectors(torch.randn(2, 1152, 8)))
        >>> digits.pose.shape, digits.activation.shape
        (torch.Size([2, 10, 16]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        in_capsules: int,
        in_dim: int,
        out_capsules: int,
        out_dim: int,
        *,
        matrix: bool = False,
        routing: str | Routing = "dynamic",
        **routing_options: Any,
    ) -> None:
        check_count("in_capsules", in_capsules)
        check_count("out_capsules", out_capsules)
        sides = pose_sides(in_dim, out_dim, matrix)
        super().__init__(routing, out_capsules, out_dim, routing_options)
        self.matrix = matrix
        self.weight = nn.Parameter(initial_weight((in_capsules,), out_capsules, *sides, matrix=matrix))

    def votes(self, capsules: Capsules) -> DenseVotes:
        """Votes `[B, 1, N, J, D]`."""
        return DenseVotes(capsules.flatten().pose, self.weight, matrix=self.matrix)

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return f"weight={list(self.weight.shape)}, matrix={self.matrix}"


class SharedCaps(CapsuleLayer):
    """Every child votes with the same matrices, one per parent: it takes any number of children.

    On top of a convolutional network it reads images of any size, and several objects though it was trained
    on one.

    Args:
        in_dim: numbers in a child's pose.
        out_capsules: number of parents, J.
        out_dim: numbers in a parent's pose.
        matrix: poses are P×P matrices (`in_dim = out_dim = P·P`) rather than vectors.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`, for a routing given by name.

    Shape: `Capsules` of pose `[B, N, in_dim]` for any N to pose `[B, J, out_dim]`; `weight` is
    `[J, in_dim, out_dim]`, or `[J, P, P]`; couplings are `[B, N, J]`.

    Example:
        >>> import torch
        >>> layer = SharedCaps(128, 10, 16)
        >>> layer(torch.randn(2, 64, 128)).pose.shape, layer(torch.randn(2, 144, 128)).pose.shape
        (torch.Size([2, 10, 16]), torch.Size([2, 10, 16]))
    """

    def __init__(
        self,
        in_dim: int,
        out_capsules: int,
        out_dim: int,
        *,
        matrix: bool = False,
        routing: str | Routing = "dynamic",
        **routing_options: Any,
    ) -> None:
        check_count("out_capsules", out_capsules)
        sides = pose_sides(in_dim, out_dim, matrix)
        super().__init__(routing, out_capsules, out_dim, routing_options)
        self.matrix = matrix
        self.weight = nn.Parameter(initial_weight((), out_capsules, *sides, matrix=matrix))

    def votes(self, capsules: Capsules) -> SharedVotes:
        """Votes `[B, 1, N, J, D]`."""
        return SharedVotes(capsules.flatten().pose, self.weight, matrix=self.matrix)

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return f"weight={list(self.weight.shape)}, matrix={self.matrix}"
