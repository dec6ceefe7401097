from __future__ import annotations

from typing import Any

from torchcaps._checks import check_count, check_flag
from torchcaps.capsules import Capsules
from torchcaps.layers.base import CapsuleLayer
from torchcaps.poses import PoseSpace, create_pose_space
from torchcaps.routing import Routing
from torchcaps.votes import ClassVotes, ConvVotes, check_padding
from torchcaps.votes.grid import check_coordinates


class ConvCaps(CapsuleLayer):
    """The capsules in each K×K field vote for the parents at its position.

    All parents of a child compete for it, including those at neighboring positions.

    Args:
        in_types: capsule types below, C.
        out_types: capsule types here, J.
        kernel_size: K.
        stride: step of the field.
        padding: rows and columns by which the first field reaches outside the image, where nobody votes.
        pose: pose space: `"matrix"`, `"vector"`, or a `PoseSpace`.
        in_dim: numbers in a child's pose, D; 16 by default.
        out_dim: numbers in a parent's pose; as many as in a child's by default.
        routing: name of a routing, or a `Routing`.
        learn_prior: learn which parents each child of a field prefers, `log_prior` `[K·K·C, J]`.
        routing_options: such as `iterations`, for a routing given by name.

    Shape: `Capsules` of pose `[B, H, W, C, D]` to pose `[B, H', W', J, D]`; `weight` is `[K·K·C, J, P, P]`
    for P×P matrices, `[K·K·C, J, in_dim, out_dim]` for vectors; couplings are `[B, H', W', K·K·C, J]`.
    Children of a field are ordered by row, column, type.

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
        pose: str | PoseSpace = "matrix",
        in_dim: int | None = None,
        out_dim: int | None = None,
        routing: str | Routing = "em",
        learn_prior: bool = False,
        **routing_options: Any,
    ) -> None:
        children = check_count("kernel_size", kernel_size) ** 2 * check_count("in_types", in_types)
        super().__init__(
            create_pose_space(pose, in_dim, out_dim),
            (children,),
            check_count("out_types", out_types),
            routing=routing,
            learn_prior=learn_prior,
            routing_options=routing_options,
        )
        self.kernel_size = kernel_size
        self.stride = check_count("stride", stride)
        self.padding = check_padding(padding, kernel_size)

    def votes(self, capsules: Capsules) -> ConvVotes:
        """Votes `[B, H'·W', K·K·C, J, D]`."""
        return ConvVotes(
            capsules.pose,
            self.weight,
            self.space,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
        )

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return (
            f"{super().extra_repr()}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class ClassCaps(CapsuleLayer):
    """Every capsule of a grid votes for every class, with weights shared over positions.

    Args:
        in_types: capsule types below, C.
        classes: number of classes, J.
        pose: pose space: `"matrix"`, `"vector"`, or a `PoseSpace`.
        in_dim: numbers in a child's pose, D; 16 by default.
        out_dim: numbers in a class's pose; as many as in a child's by default.
        coordinates: add the child's position to its vote.
        routing: name of a routing, or a `Routing`.
        learn_prior: learn which classes each type prefers, `log_prior` `[C, J]`.
        routing_options: such as `iterations`, for a routing given by name.

    Shape: `Capsules` of pose `[B, H, W, C, D]` to pose `[B, J, D]`; `weight` is `[C, J, P, P]` for P×P
    matrices, `[C, J, in_dim, out_dim]` for vectors; couplings are `[B, H·W·C, J]`.

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
        pose: str | PoseSpace = "matrix",
        in_dim: int | None = None,
        out_dim: int | None = None,
        coordinates: bool = True,
        routing: str | Routing = "em",
        learn_prior: bool = False,
        **routing_options: Any,
    ) -> None:
        super().__init__(
            create_pose_space(pose, in_dim, out_dim),
            (check_count("in_types", in_types),),
            check_count("classes", classes),
            routing=routing,
            learn_prior=learn_prior,
            routing_options=routing_options,
        )
        self.coordinates = check_flag("coordinates", coordinates)
        if coordinates:
            check_coordinates(self.space)

    def votes(self, capsules: Capsules) -> ClassVotes:
        """Votes `[B, 1, H·W·C, J, D]`."""
        return ClassVotes(capsules.pose, self.weight, self.space, coordinates=self.coordinates)

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return f"{super().extra_repr()}, coordinates={self.coordinates}"
