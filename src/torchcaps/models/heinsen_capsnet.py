from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps.capsules import Capsules
from torchcaps.layers import DenseCaps, SharedCaps
from torchcaps.models.base import CapsuleModel, Output
from torchcaps.models.registry import register_model
from torchcaps.models.trunks.plain import CoordConv6
from torchcaps.routing import routing_options as known_options


class HeinsenCapsNet(CapsuleModel):
    """The smallNORB network of *An Algorithm for Routing Capsules in All Domains* (Heinsen 2019).

    image and its coordinates → six times batch normalization, conv 3×3, SiLU → 1×1 heads for poses and
    activations → capsules whose weights all children share → class capsules; matrix poses throughout.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: the smallest height and width that will come; larger ones are read as well.
        channels: of the convolutions.
        types: primary capsule types, and capsules of the layer between primary and class capsules.
        pose_dim: numbers in a pose: P·P of P×P matrices.
        routing: name of a routing.
        routing_options: such as `iterations`; the same for both routed layers. `heinsen` learns a bias of
            every vote, as published.
    """

    any_size = True

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        channels: int = 64,
        types: int = 64,
        pose_dim: int = 16,
        routing: str = "heinsen",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        self.trunk = CoordConv6(in_channels, channels)
        self.trunk.grid(self.image_size)
        self.types, self.pose_dim = check_count("types", types), check_count("pose_dim", pose_dim)
        if "bias" in known_options(routing):
            routing_options = {"bias": True, **routing_options}
        options: dict[str, Any] = {"pose": "matrix", "routing": routing, **routing_options}
        self.pose = nn.Sequential(nn.BatchNorm2d(channels), nn.Conv2d(channels, types * pose_dim, 1))
        self.activation = nn.Sequential(nn.BatchNorm2d(channels), nn.Conv2d(channels, types, 1))
        self.parts = SharedCaps(pose_dim, types, pose_dim, **options)
        self.classes = DenseCaps(types, pose_dim, num_classes, pose_dim, **options)
        # As published. Near the identity all parts would get nearly the same votes from all children.
        for layer in (self.parts, self.classes):
            nn.init.normal_(layer.weight, std=pose_dim**-0.5)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`; there is no decoder, so `target` is not used."""
        self.check_images(images)
        self.trunk.grid(images.shape[2:])
        features = self.trunk(images)
        pose = self.pose(features).unflatten(1, (self.types, self.pose_dim)).permute(0, 3, 4, 1, 2)
        activation = torch.sigmoid(self.activation(features)).permute(0, 2, 3, 1)
        routed = self.classes(self.parts(Capsules(pose, activation)))
        return Output(routed.activation, routed.logits, routed.capsules)


# Six convolutions without padding need 29 pixels; the embedded digits are 8×8.
@register_model(recipe={"optimizer": {"lr": 5e-4}}, on={"digits": {"options": {"size": 32}}})
def heinsen_capsnet(**options: Any) -> HeinsenCapsNet:
    """The paper's network: 271,688 parameters for 5 classes and stereo images of 29×29 or more.

    The default of `create_model`, 28, is too small for its six convolutions, with any routing: give
    `image_size`.
    """
    return HeinsenCapsNet(**options)
