from __future__ import annotations

from typing import Any

from torch import nn

from torchcaps._checks import check_count, check_counts, check_flag
from torchcaps.capsules import Capsules
from torchcaps.layers.base import CapsuleLayer, initial_weight
from torchcaps.routing import Routing
from torchcaps.votes import ClassVotes, ConvVotes, check_padding


def weight_sides(pose_size: int, dims: tuple[int, int] | None) -> tuple[int, int]:
    """The last two sizes of a weight: P, P for matrix poses, the given sizes for vector poses."""
    check_count("pose_size", pose_size)
    if dims is None:
        return pose_size, pose_size
    size_in, size_out = check_counts("dims", dims, 2)
    return size_in, size_out


class ConvCaps(CapsuleLayer):
    """The capsules in each K×K field vote for the parents above it.

    A child competes for all its parents, those at neighboring positions included.

    Args:
        in_types: capsule types below, C.
        out_types: capsule types here, J.
        kernel_size: K.
        stride: step of the field.
        padding: rows and columns by which the first field reaches outside the image, where nobody votes.
        pose_size: P of P×P matrix poses.
        dims: sizes (in, out) of vector poses, in place of matrix poses.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`, for a routing given by name.

    Shape: `Capsules` of pose `[B, H, W, C, P·P]` to pose `[B, H', W', J, P·P]`; `weight` is
    `[K·K·C, J, P, P]`, or `[K·K·C, J, in, out]`; couplings are `[B, H', W', K·K·C, J]`. Children of a
    field are ordered by row, column, type.

    Example:
        >>> import torch
        >>> layer = ConvCaps(8, 16, kernel_size=3, stride=2)
        >>> layer(Capsules(torch.randn(2, 7, 7, 8, 16), torch.rand(2, 7, 7, 8))).pose.shape
        torch.Size([2, 3, 3, 16, 16])
    """

    def __init__(
        self,
        in_types: int,
        out_types: int,
        *,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        pose_size: int = 4,
        dims: tuple[int, int] | None = None,
        routing: str | Routing = "em",
        **routing_options: Any,
    ) -> None:
        sides = weight_sides(pose_size, dims)
        out_dim = pose_size**2 if dims is None else dims[1]
        super().__init__(routing, check_count("out_types", out_types), out_dim, routing_options)
        self.kernel_size = check_count("kernel_size", kernel_size)
        self.stride = check_count("stride", stride)
        self.padding = check_padding(padding, kernel_size)
        self.matrix = dims is None
        children = kernel_size**2 * check_count("in_types", in_types)
        self.weight = nn.Parameter(initial_weight((children,), out_types, *sides, matrix=self.matrix))

    def votes(self, capsules: Capsules) -> ConvVotes:
        """Votes `[B, H'·W', K·K·C, J, D]`."""
        return ConvVotes(
            capsules.pose,
            self.weight,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            matrix=self.matrix,
        )

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return (
            f"weight={list(self.weight.shape)}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, matrix={self.matrix}"
        )


class ClassCaps(CapsuleLayer):
    """Every capsule of a grid votes for every class, with matrices shared over positions.

    Args:
        in_types: capsule types below, C.
        classes: number of classes, J.
        pose_size: P of P×P matrix poses.
        dims: sizes (in, out) of vector poses, in place of matrix poses.
        coordinates: add the child's position to its vote.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`, for a routing given by name.

    Shape: `Capsules` of pose `[B, H, W, C, P·P]` to pose `[B, J, P·P]`; `weight` is `[C, J, P, P]`, or
    `[C, J, in, out]`; couplings are `[B, H·W·C, J]`.

    Example:
        >>> import torch
        >>> layer = ClassCaps(16, 5)
        >>> layer(Capsules(torch.randn(2, 4, 4, 16, 16), torch.rand(2, 4, 4, 16))).activation.shape
        torch.Size([2, 5])
    """

    def __init__(
        self,
        in_types: int,
        classes: int,
        *,
        pose_size: int = 4,
        dims: tuple[int, int] | None = None,
        coordinates: bool = True,
        routing: str | Routing = "em",
        **routing_options: Any,
    ) -> None:
        sides = weight_sides(pose_size, dims)
        out_dim = pose_size**2 if dims is None else dims[1]
        super().__init__(routing, check_count("classes", classes), out_dim, routing_options)
        self.matrix = dims is None
        self.coordinates = check_flag("coordinates", coordinates)
        if coordinates and sides[1] < 2:
            raise ValueError("coordinates need poses of at least 2 numbers per column; set coordinates=False")
        children = (check_count("in_types", in_types),)
        self.weight = nn.Parameter(initial_weight(children, classes, *sides, matrix=self.matrix))

    def votes(self, capsules: Capsules) -> ClassVotes:
        """Votes `[B, 1, H·W·C, J, D]`."""
        return ClassVotes(capsules.pose, self.weight, matrix=self.matrix, coordinates=self.coordinates)

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return f"weight={list(self.weight.shape)}, coordinates={self.coordinates}, matrix={self.matrix}"
