from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_dtype, check_tensor
from torchcaps.capsules import SQUASHES, Capsules, squash
from torchcaps.votes import at_least_float32


def convolution(
    in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, bias: bool = True
) -> nn.Conv2d:
    """A square convolution, its sizes checked."""
    check_count("in_channels", in_channels)
    check_count("kernel_size", kernel_size)
    check_count("stride", stride)
    check_count("padding", padding, minimum=0)
    return nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, bias=bias)


def check_features(features: Tensor, conv: nn.Conv2d) -> None:
    """Raise for a feature map that does not fit the convolution."""
    check_tensor("features", features, "B C H W", C=conv.in_channels)
    check_dtype("features", features, conv.weight)
    least = conv.kernel_size[0] - 2 * int(conv.padding[0])
    if min(features.shape[2:]) < least:
        raise ValueError(f"features must be at least {least}×{least}, got {list(features.shape[2:])}")


class PrimaryCaps(nn.Module):
    """From feature maps to vector capsules: a convolution whose channels are grouped into poses.

    The D numbers of a pose are D channels at **one** pixel , squashed.

    Args:
        in_channels: channels of the feature map.
        types: capsule types per position, C.
        dim: numbers in a pose, D.
        kernel_size: of the convolution.
        stride: of the convolution.
        padding: of the convolution.
        squash: a member of the squash family.

    Shape: `[B, in_channels, H, W]` to `Capsules` of pose `[B, H', W', C, D]`.

    Example:
        >>> PrimaryCaps(256, 32, 8, kernel_size=9, stride=2)(torch.randn(1, 256, 20, 20)).pose.shape
        torch.Size([1, 6, 6, 32, 8])
    """

    def __init__(
        self,
        in_channels: int,
        types: int,
        dim: int,
        *,
        kernel_size: int = 1,
        stride: int = 1,
        padding: int = 0,
        squash: str = "hinton",
    ) -> None:
        super().__init__()
        self.types, self.dim = check_count("types", types), check_count("dim", dim)
        self.squash = check_choice("squash", squash, tuple(SQUASHES))
        self.conv = convolution(in_channels, types * dim, kernel_size, stride, padding)

    def forward(self, features: Tensor) -> Capsules:
        """Capsules of a feature map."""
        check_features(features, self.conv)
        pose = self.conv(features).unflatten(1, (self.types, self.dim)).permute(0, 3, 4, 1, 2)
        return Capsules.from_vectors(squash(at_least_float32(pose), self.squash))


class MatrixPrimaryCaps(nn.Module):
    """From feature maps to matrix capsules: linear poses, and a sigmoid activation for each.

    Args:
        in_channels: channels of the feature map.
        types: capsule types per position, C.
        pose_dim: numbers in a pose, P·P of P×P matrices.
        kernel_size: of the convolution.
        stride: of the convolution.
        padding: of the convolution.

    Shape: `[B, in_channels, H, W]` to `Capsules` of pose `[B, H', W', C, pose_dim]`.

    Example:
        >>> MatrixPrimaryCaps(64, 8)(torch.randn(2, 64, 14, 14)).pose.shape
        torch.Size([2, 14, 14, 8, 16])
    """

    def __init__(
        self,
        in_channels: int,
        types: int,
        *,
        pose_dim: int = 16,
        kernel_size: int = 1,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__()
        self.types, self.pose_dim = check_count("types", types), check_count("pose_dim", pose_dim)
        channels = types * (pose_dim + 1)
        self.conv = convolution(in_channels, channels, kernel_size, stride, padding, bias=False)

    def forward(self, features: Tensor) -> Capsules:
        """Capsules of a feature map."""
        check_features(features, self.conv)
        sizes = [self.types * self.pose_dim, self.types]
        pose, activation = self.conv(features).permute(0, 2, 3, 1).split(sizes, -1)
        return Capsules(pose.unflatten(-1, (self.types, self.pose_dim)), torch.sigmoid(activation))
