from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_flag
from torchcaps.capsules import SQUASHES, Capsules, squash
from torchcaps.layers.primary import check_features, convolution
from torchcaps.votes import at_least_float32


class NormalizedPrimaryCaps(nn.Module):
    """From feature maps to capsules through batch normalization, on top of a deep network.

    Poses and activations come from convolutions of their own, each followed by batch normalization; the
    activation is a sigmoid. For a routing that reads no activations, the pose is squashed instead, and its
    length is the activation.

    Args:
        in_channels: channels of the feature map.
        types: capsule types per position, C.
        dim: numbers in a pose, D.
        kernel_size: of the convolutions.
        stride: of the convolutions.
        padding: of the convolutions.
        lengths: squash the poses and take their lengths as activations, instead of a second convolution.
        norm: what shares the statistics, scale and shift of a normalized pose: `"channel"`, nothing, or
            `"type"`, the D numbers of a pose.
        squash: a member of the squash family, used with `lengths`.

    Shape: `[B, in_channels, H, W]` to `Capsules` of pose `[B, H', W', C, D]`.

    Example:
        >>> layer = NormalizedPrimaryCaps(64, 8, 16, kernel_size=3, padding=1)
        >>> layer(torch.randn(2, 64, 7, 7)).pose.shape
        torch.Size([2, 7, 7, 8, 16])
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
        lengths: bool = False,
        norm: str = "channel",
        squash: str = "hinton",
    ) -> None:
        super().__init__()
        self.types, self.dim = check_count("types", types), check_count("dim", dim)
        self.squash = check_choice("squash", squash, tuple(SQUASHES))
        self.norm = check_choice("norm", norm, ("channel", "type"))
        sizes = (kernel_size, stride, padding)
        self.pose = convolution(in_channels, types * dim, *sizes, bias=False)
        self.pose_norm = nn.BatchNorm2d(types * dim) if norm == "channel" else nn.BatchNorm3d(types)
        self.activation: nn.Sequential | None = None
        if not check_flag("lengths", lengths):
            conv = convolution(in_channels, types, *sizes, bias=False)
            self.activation = nn.Sequential(conv, nn.BatchNorm2d(types))

    def forward(self, features: Tensor) -> Capsules:
        """Capsules of a feature map."""
        check_features(features, self.pose)
        pose = self.pose(features)
        if self.norm == "channel":
            pose = self.pose_norm(pose).unflatten(1, (self.types, self.dim))
        else:
            pose = self.pose_norm(pose.unflatten(1, (self.types, self.dim)))
        pose = pose.permute(0, 3, 4, 1, 2)
        if self.activation is None:
            return Capsules.from_vectors(squash(at_least_float32(pose), self.squash))
        return Capsules(pose, torch.sigmoid(self.activation(features)).permute(0, 2, 3, 1))
