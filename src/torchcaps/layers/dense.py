from __future__ import annotations

from typing import Any

from torchcaps._checks import check_count
from torchcaps.capsules import Capsules
from torchcaps.layers.base import CapsuleLayer
from torchcaps.poses import PoseSpace, create_pose_space
from torchcaps.routing import Routing
from torchcaps.votes import DenseVotes, SharedVotes


class DenseCaps(CapsuleLayer):
    """Every child votes for every parent, with a weight of its own per pair.

    Args:
        in_capsules: number of children, N.
        in_dim: numbers in a child's pose.
        out_capsules: number of parents, J.
        out_dim: numbers in a parent's pose.
        pose: pose space: `"vector"`, `"matrix"` (`in_dim = out_dim = P·P`), or a `PoseSpace`.
        routing: name of a routing, or a `Routing`.
        learn_prior: learn which parents each child prefers, `log_prior` `[N, J]`.
        routing_options: such as `iterations`, for a routing given by name.

    Shape: `Capsules` of pose `[B, N, in_dim]` (a grid of N capsules in all, or a tensor of vectors, fits too)
    to pose `[B, J, out_dim]`; `weight` is `[N, J, in_dim, out_dim]`, or `[N, J, P, P]`; couplings are
    `[B, N, J]`.

    Example:
        >>> import torch
        >>> layer = DenseCaps(1152, 8, 10, 16, iterations=3)
        >>> digits = layer(Capsules.from_vectors(torch.randn(2, 1152, 8)))
        >>> digits.pose.shape, digits.activation.shape
        (torch.Size([2, 10, 16]), torch.Size([2, 10]))
        >>> layer(torch.randn(2, 1152, 8), coupling=True).coupling.shape
        torch.Size([2, 1152, 10])
    """

    def __init__(
        self,
        in_capsules: int,
        in_dim: int,
        out_capsules: int,
        out_dim: int,
        *,
        pose: str | PoseSpace = "vector",
        routing: str | Routing = "dynamic",
        learn_prior: bool = False,
        **routing_options: Any,
    ) -> None:
        super().__init__(
            create_pose_space(pose, in_dim, out_dim),
            (check_count("in_capsules", in_capsules),),
            check_count("out_capsules", out_capsules),
            routing=routing,
            learn_prior=learn_prior,
            routing_options=routing_options,
        )

    def votes(self, capsules: Capsules) -> DenseVotes:
        """Votes `[B, 1, N, J, D]`."""
        return DenseVotes(capsules.flatten().pose, self.weight, self.space)


class SharedCaps(CapsuleLayer):
    """Every child votes with the same weights, one per parent: it takes any number of children.

    On top of a convolutional network it reads images of any size, and several objects after training on one.

    Args:
        in_dim: numbers in a child's pose.
        out_capsules: number of parents, J.
        out_dim: numbers in a parent's pose.
        pose: pose space: `"vector"`, `"matrix"` (`in_dim = out_dim = P·P`), or a `PoseSpace`.
        routing: name of a routing, or a `Routing`.
        learn_prior: learn which parents children prefer, `log_prior` `[J]`.
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
        pose: str | PoseSpace = "vector",
        routing: str | Routing = "dynamic",
        learn_prior: bool = False,
        **routing_options: Any,
    ) -> None:
        super().__init__(
            create_pose_space(pose, in_dim, out_dim),
            (),
            check_count("out_capsules", out_capsules),
            routing=routing,
            learn_prior=learn_prior,
            routing_options=routing_options,
        )

    def votes(self, capsules: Capsules) -> SharedVotes:
        """Votes `[B, 1, N, J, D]`."""
        return SharedVotes(capsules.flatten().pose, self.weight, self.space)
