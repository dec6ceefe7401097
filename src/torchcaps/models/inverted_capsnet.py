from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_counts
from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer, ConcurrentCaps, ConvCaps, DenseCaps
from torchcaps.layers.primary import check_features, convolution
from torchcaps.models.backbones import create_backbone
from torchcaps.models.base import CapsuleModel, LayerHistory, Output, conv_extent
from torchcaps.models.registry import register_model


class InvertedCapsNet(CapsuleModel):
    """The network of *Capsules with Inverted Dot-Product Attention Routing* (Tsai et al. 2020).

    backbone → primary 1×1 → conv capsules 3×3 stride 2 → conv capsules 3×3 → class capsules; all three layers
    are routed at the same time.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        backbone: a trunk of torchcaps, the name of a timm model, or a module that maps images to features.
        types: capsule types of the primary layer and of the two convolutional ones.
        pose: pose space: `"matrix"` or `"vector"`.
        pose_dim: numbers in a pose.
        routing: name of a routing. Others than `"inverted_attention"` route one layer after the other.
        routing_options: such as `iterations`; the same for all three layers. Of inverted attention there are
            2 by default, each a pass over all layers.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        backbone: str | nn.Module = "resnet16",
        types: tuple[int, int, int] = (32, 32, 32),
        pose: str = "matrix",
        pose_dim: int = 16,
        routing: str = "inverted_attention",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        primary, first, second = check_counts("types", types, 3)
        below = create_backbone(backbone, in_channels, self.image_size)
        places = 1
        for size in below.grid:
            size = conv_extent("inverted_capsnet", "first capsule layer", size, 3, 2)
            places *= conv_extent("inverted_capsnet", "second capsule layer", size, 3)
        options: dict[str, Any] = {"pose": pose, "routing": routing, **routing_options}
        hidden = options
        concurrent = routing == "inverted_attention"
        if concurrent:
            passes = options.pop("iterations", 2)
            options = {**options, "iterations": 1}
            # Their activations are not used, so there is nothing to learn a score from.
            hidden = {**options, "score": False}
        self.backbone = below.network
        self.primary = LayerNormPrimaryCaps(below.channels, primary, pose_dim)
        layers: list[CapsuleLayer] = [
            ConvCaps(primary, first, kernel_size=3, stride=2, in_dim=pose_dim, **hidden),
            ConvCaps(first, second, kernel_size=3, in_dim=pose_dim, **hidden),
            DenseCaps(places * second, pose_dim, num_classes, pose_dim, **options),
        ]
        if concurrent:
            for layer in layers:
                initialize(layer)
        self.capsules = ConcurrentCaps(layers, passes) if concurrent else nn.Sequential(*layers)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`; there is no decoder, so `target` is not used."""
        self.check_images(images)
        routed = self.capsules(self.primary(self.backbone(images)))
        return Output(routed.activation, routed.logits, routed.capsules)

    def routing_history(self, images: Tensor) -> list[LayerHistory]:
        """Every pass of every capsule layer, from the bottom up; votes are those of the last pass."""
        if not isinstance(self.capsules, ConcurrentCaps):
            return super().routing_history(images)
        self.check_images(images)
        children = self.primary(self.backbone(images))
        passes = self.capsules.history(children)
        histories = []
        for number, layer in enumerate(self.capsules.layers):
            assert isinstance(layer, CapsuleLayer)
            if number:
                children = passes[max(len(passes) - 2, 0)][number - 1].capsules
            votes = layer.votes(children).tensor()
            name = f"capsules.layers.{number}"
            histories.append(LayerHistory(name, votes, [routed[number] for routed in passes]))
        return histories


class LayerNormPrimaryCaps(nn.Module):
    """From feature maps to capsules without activations: a 1×1 convolution and LayerNorm over each pose.

    Args:
        in_channels: channels of the feature map.
        types: capsule types per position, C.
        dim: numbers in a pose, D.

    Shape: `[B, in_channels, H, W]` to `Capsules` of pose `[B, H, W, C, D]`, whose activations are 1.

    Example:
        >>> LayerNormPrimaryCaps(64, 8, 16)(torch.randn(2, 64, 5, 5)).pose.shape
        torch.Size([2, 5, 5, 8, 16])
    """

    def __init__(self, in_channels: int, types: int, dim: int) -> None:
        super().__init__()
        self.types, self.dim = check_count("types", types), check_count("dim", dim)
        self.conv = convolution(in_channels, types * dim, 1, 1, 0, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, features: Tensor) -> Capsules:
        """Capsules of a feature map."""
        check_features(features, self.conv)
        pose = self.norm(self.conv(features).permute(0, 2, 3, 1).unflatten(-1, (self.types, self.dim)))
        return Capsules(pose, torch.ones_like(pose[..., 0]))


def initialize(layer: CapsuleLayer) -> None:
    """The paper's first weights: normal, with a variance of J / (children · what a vote sums over)."""
    children, parents, size = layer.weight.shape[:3]
    with torch.no_grad():
        layer.weight.normal_(std=(parents / (children * size)) ** 0.5)


@register_model(recipe={"optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 5e-4}})
def inverted_capsnet(**options: Any) -> InvertedCapsNet:
    """The CIFAR-10 network: 1.83 M parameters on 32×32 color images."""
    return InvertedCapsNet(**options)
