"""The pair of the two-digit experiment: the same convolutions, then shared capsules or average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_counts
from torchcaps.layers import SharedCaps
from torchcaps.models.base import CapsuleModel, Model, Output, conv_extent
from torchcaps.models.registry import register_model
from torchcaps.routing import Routing, routing_options

STAGES = ((64, 64), (128, 128))


class Features(nn.Sequential):
    """Stages of 3×3 convolutions with ReLU, each stage but the first after an average pooling by 2.

    Args:
        model: name of the network these are for, to say in an error.
        in_channels: channels of an image.
        image_size: height and width that must fit; other sizes are checked in `forward`.
        stages: channels of the convolutions, stage by stage.
    """

    def __init__(
        self, model: str, in_channels: int, image_size: tuple[int, int], stages: Sequence[Sequence[int]]
    ) -> None:
        if not isinstance(stages, (tuple, list)) or not stages or not all(stages):
            raise ValueError(f"stages must be tuples of channels, such as {STAGES}, got {stages!r}")
        layers: list[nn.Module] = []
        for number, stage in enumerate(stages):
            if number:
                layers.append(nn.AvgPool2d(2))
            for channels in check_counts("stages", stage):
                layers += [nn.Conv2d(in_channels, channels, 3), nn.ReLU()]
                in_channels = channels
        super().__init__(*layers)
        self.model = model
        self.out_channels = in_channels
        self.check_size(image_size)

    def check_size(self, image_size: Sequence[int]) -> None:
        """Raise for an image that is too small, naming the layer."""
        for size in image_size:
            for layer in self:
                if isinstance(layer, nn.Conv2d):
                    size = conv_extent(self.model, "3×3 convolution", size, 3)
                elif isinstance(layer, nn.AvgPool2d):
                    size = conv_extent(self.model, "pooling", size, 2, 2)

    def forward(self, images: Tensor) -> Tensor:
        """Feature map `[B, channels, H', W']`."""
        self.check_size(images.shape[2:])
        return super().forward(images)


class SharedCapsNet(CapsuleModel):
    """Shared capsules on a small CNN: images of any size, and several objects after training on one.

    Every place of the feature map is a child whose pose is its channels.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: the smallest height and width that will come; larger ones are read as well.
        stages: channels of the convolutions, stage by stage.
        class_dim: numbers in a class pose.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`.
    """

    any_size = True

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        stages: Sequence[Sequence[int]] = STAGES,
        class_dim: int = 16,
        routing: str | Routing = "dynamic",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        self.features = Features("shared_capsnet", in_channels, self.image_size, stages)
        self.classes = SharedCaps(
            self.features.out_channels, num_classes, class_dim, routing=routing, **routing_options
        )

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`; there is no decoder, so `target` is not used."""
        self.check_images(images)
        children = self.features(images).flatten(2).transpose(1, 2)
        routed = self.classes(children)
        return Output(routed.activation, routed.logits, routed.capsules)


class PooledCNN(Model):
    """The twin of `SharedCapsNet` with global pooling, a dense layer and one sigmoid per class.

    With average pooling, the features of all places are averaged and then classified. With maximum pooling,
    each place is classified on its own, and a class counts where it is most certain: a second object does
    not take anything from the first.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: the smallest height and width that will come; larger ones are read as well.
        stages: channels of the convolutions, stage by stage.
        hidden: size of the dense layer.
        pooling: `"average"` or `"max"`.
    """

    any_size = True

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        stages: Sequence[Sequence[int]] = STAGES,
        hidden: int = 128,
        pooling: str = "average",
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        self.pooling = check_choice("pooling", pooling, ("average", "max"))
        self.features = Features("pooled_cnn", in_channels, self.image_size, stages)
        self.head = nn.Sequential(
            nn.Linear(self.features.out_channels, check_count("hidden", hidden)),
            nn.ReLU(),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`."""
        self.check_images(images)
        features = self.features(images)
        if self.pooling == "max":
            logits = self.head(features.flatten(2).transpose(1, 2)).amax(1)
        else:
            logits = self.head(features.mean((2, 3)))
        return Output(scores=torch.sigmoid(logits), logits=logits)


# Trained on single objects and tested on two, with the loss of the 2018 essay.
RECIPE = {
    "loss": {"name": "margin", "absent_weight": 0.25},
    "training": {"ema_decay": 0.99},
    "evaluation": {"extra_datasets": ["two_digits"]},
}
ON = {
    "digits": {"options": {"size": 16}},
    # As far as the empty margin of the digits goes. A network that only saw centered digits takes the wider
    # background beside a second digit for a 1.
    "mnist": {"preprocess": {"translate": 4}},
}


@register_model(recipe=RECIPE, on=ON)
def shared_capsnet(**options: Any) -> SharedCapsNet:
    """Ten shared capsules of 16 numbers on four convolutions, squash `half` as in the essay: 279 K."""
    routing = options.get("routing", "dynamic")
    if isinstance(routing, str) and "squash" in routing_options(routing):
        options = {"squash": "half", **options}
    return SharedCapsNet(**options)


@register_model(recipe=RECIPE, on=ON)
def pooled_cnn(**options: Any) -> PooledCNN:
    """The same convolutions under global average pooling: 277 K parameters."""
    return PooledCNN(**options)
