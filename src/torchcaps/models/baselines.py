"""The convolutional networks that the papers compare capsules with."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from torchcaps._checks import check_counts, check_number
from torchcaps.models.base import Model, Output, conv_extent, softmax_output
from torchcaps.models.registry import register_model


class NorbCNN(Model):
    """The baseline of the 2018 paper: two padded 5×5 convolutions with pooling, then 1024 units with dropout.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        dropout: share of the 1024 units left out in training.
    """

    def __init__(
        self, *, num_classes: int, in_channels: int, image_size: int | tuple[int, int], dropout: float = 0.5
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        places = 1
        for size in self.image_size:
            size = conv_extent("norb_cnn", "first pooling", size, 2, 2)
            places *= conv_extent("norb_cnn", "second pooling", size, 2, 2)
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * places, 1024),
            nn.ReLU(),
            nn.Dropout(check_number("dropout", dropout)),
            nn.Linear(1024, num_classes),
        )

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`."""
        self.check_images(images)
        return softmax_output(self.layers(images))


class CapsNetCNN(Model):
    """The baseline of the 2017 paper: padded 5×5 convolutions of 256, 256, 128, then 328, 192 and dropout.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        channels: of the three convolutions.
        hidden: sizes of the two dense layers.
        dropout: share of the last hidden units left out in training.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        channels: tuple[int, int, int] = (256, 256, 128),
        hidden: tuple[int, int] = (328, 192),
        dropout: float = 0.5,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        first, second = check_counts("hidden", hidden, 2)
        layers: list[nn.Module] = []
        for wide in check_counts("channels", channels, 3):
            layers += [nn.Conv2d(in_channels, wide, 5, padding=2), nn.ReLU()]
            in_channels = wide
        places = self.image_size[0] * self.image_size[1]
        layers += [nn.Flatten(), nn.Linear(in_channels * places, first), nn.ReLU()]
        layers += [nn.Linear(first, second), nn.ReLU()]
        layers += [nn.Dropout(check_number("dropout", dropout))]
        self.layers = nn.Sequential(*layers, nn.Linear(second, num_classes))

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`."""
        self.check_images(images)
        return softmax_output(self.layers(images))


@register_model
def norb_cnn(**options: Any) -> NorbCNN:
    """The baseline for novel viewpoints: 4.2 M parameters on 32×32."""
    return NorbCNN(**options)


@register_model
def capsnet_cnn(**options: Any) -> CapsNetCNN:
    """The baseline for MNIST: 35.4 M parameters on 28×28."""
    return CapsNetCNN(**options)
