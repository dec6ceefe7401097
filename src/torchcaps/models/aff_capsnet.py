from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_counts
from torchcaps.layers import Decoder, PrimaryCaps, SharedCaps
from torchcaps.models.base import CapsuleModel, Output, conv_extent, longest
from torchcaps.models.registry import register_model
from torchcaps.routing import Routing


class AffCapsNet(CapsuleModel):
    """*Improving the Robustness of Capsule Networks to Image Affine Transformations* (Gu, Tresp 2020).

    `CapsNet` with one transformation per class, shared by all primary capsules, and the mean of all votes in
    place of routing.

    conv 9×9 → primary capsules 9×9 stride 2 → one class capsule per class, and a decoder that draws it.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image; without a decoder, others are read as well.
        channels: of the first convolution.
        types: primary capsule types.
        primary_dim: numbers in a primary pose.
        class_dim: numbers in a class pose.
        decoder: hidden sizes of the decoder; `None` for no decoder.
        masked: whether the decoder sees the drawn capsule alone, see `Decoder`.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`. `uniform` starts from `average=True`.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        channels: int = 256,
        types: int = 32,
        primary_dim: int = 8,
        class_dim: int = 16,
        decoder: tuple[int, ...] | None = (512, 1024),
        masked: bool = True,
        routing: str | Routing = "uniform",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        for size in self.image_size:
            size = conv_extent("aff_capsnet", "first convolution", size, 9)
            conv_extent("aff_capsnet", "primary capsule layer", size, 9, 2)
        if routing == "uniform":
            routing_options = {"average": True, **routing_options}
        self.conv = nn.Conv2d(in_channels, check_count("channels", channels), 9)
        self.primary = PrimaryCaps(channels, types, primary_dim, kernel_size=9, stride=2)
        self.classes = SharedCaps(primary_dim, num_classes, class_dim, routing=routing, **routing_options)
        self.any_size = decoder is None
        if decoder is not None:
            decoder = check_counts("decoder", decoder)
            shape = (in_channels, *self.image_size)
            self.decoder = Decoder(num_classes, class_dim, shape, decoder, masked=masked)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]` and draw the capsule `target` `[B]`, or else the longest."""
        self.check_images(images)
        routed = self.classes(self.primary(torch.relu(self.conv(images))))
        drawn = None
        if self.decoder is not None:
            drawn = self.reconstruct(routed.capsules, longest(routed.activation, target))
        return Output(routed.activation, routed.logits, routed.capsules, drawn)


@register_model(recipe={"loss": {"name": "margin", "reconstruction": 0.0005}})
def aff_capsnet(**options: Any) -> AffCapsNet:
    """The paper's network: 7.6 M parameters on 40×40, decoder included."""
    return AffCapsNet(**options)


@register_model(recipe={"loss": {"name": "margin"}})
def aff_capsnet_small(**options: Any) -> AffCapsNet:
    """A smaller network of the same form, 64 channels, 8 types, no decoder: 338 K parameters."""
    return AffCapsNet(**{"channels": 64, "types": 8, "decoder": None, **options})
