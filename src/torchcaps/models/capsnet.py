from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_counts
from torchcaps.layers import Decoder, DenseCaps, PrimaryCaps
from torchcaps.models.base import CapsuleModel, Output, conv_extent, longest
from torchcaps.models.registry import register_model
from torchcaps.routing import Routing
from torchcaps.routing import routing_options as known_options


class CapsNet(CapsuleModel):
    """The network of *Dynamic Routing Between Capsules* (Sabour, Frosst, Hinton 2017).

    conv 9×9 → primary capsules 9×9 stride 2 → one class capsule per class, and a decoder that draws it.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        channels: of the first convolution.
        types: primary capsule types.
        primary_dim: numbers in a primary pose.
        class_dim: numbers in a class pose.
        decoder: hidden sizes of the decoder; `None` for no decoder.
        masked: whether the decoder sees the drawn capsule alone, see `Decoder`.
        squash: member of the squash family, in the primary layer and in the routing.
        primary_squash: another one for the primary layer, such as `"none"`.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`.
    """

    name = "capsnet"

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
        squash: str = "hinton",
        primary_squash: str | None = None,
        routing: str | Routing = "dynamic",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        places = 1
        for size in self.image_size:
            size = conv_extent(self.name, "first convolution", size, 9)
            places *= conv_extent(self.name, "primary capsule layer", size, 9, 2)
        self.conv = nn.Conv2d(in_channels, check_count("channels", channels), 9)
        self.primary = PrimaryCaps(
            channels, types, primary_dim, kernel_size=9, stride=2, squash=primary_squash or squash
        )
        if isinstance(routing, str) and "squash" in known_options(routing):
            routing_options = {"squash": squash, **routing_options}
        self.classes = DenseCaps(
            places * types, primary_dim, num_classes, class_dim, routing=routing, **routing_options
        )
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


# The paper's losses: lengths with a margin, and a small share of the drawing's error.
RECIPE = {"loss": {"name": "margin", "reconstruction": 0.0005}}


@register_model(recipe=RECIPE)
def capsnet(**options: Any) -> CapsNet:
    """The paper's network: 6.8 M parameters and a decoder of 1.4 M on 28×28."""
    return CapsNet(**options)


@register_model(recipe=RECIPE)
def capsnet_small(**options: Any) -> CapsNet:
    """A smaller network of the same form: 0.96 M parameters on 28×28, decoder included."""
    return CapsNet(**{"channels": 64, "types": 8, "decoder": (128, 256), **options})
