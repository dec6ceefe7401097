from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_counts
from torchcaps.capsules import Capsules, squash
from torchcaps.layers import Decoder, DenseCaps
from torchcaps.models.base import CapsuleModel, Output, conv_extent, longest
from torchcaps.models.registry import register_model
from torchcaps.routing import Routing
from torchcaps.votes import at_least_float32

CHANNELS = (32, 64, 64, 128)


class EfficientCapsNet(CapsuleModel):
    """The network of *Efficient-CapsNet* (Mazzia, Salvetti, Chiaberge 2021).

    Four convolutions → a depthwise convolution over the complete map, whose 128 numbers are 16 primary
    capsules → class capsules by self-attention routing, and a decoder that draws one of them.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        first_kernel: side of the first convolution's kernel; the others have 3×3.
        strides: of the four convolutions.
        primary_kernel: side of the depthwise convolution; `None` for the size of its map. It must leave one
            position.
        primary_stride: of the depthwise convolution.
        norm: `"batch"`, after ReLU, or `"instance"`, after leaky ReLU, as in the published smallNORB network.
        primary_dim: numbers in a primary pose.
        class_dim: numbers in a class pose.
        decoder: hidden sizes of the decoder; `None` for no decoder.
        routing: name of a routing, or a `Routing`.
        routing_options: of that routing.

    Example:
        >>> model = EfficientCapsNet(num_classes=10, in_channels=1, image_size=28, decoder=None)
        >>> sum(parameter.numel() for parameter in model.parameters())
        161824
    """

    name = "efficient_capsnet"

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        first_kernel: int = 5,
        strides: tuple[int, int, int, int] = (1, 1, 1, 2),
        primary_kernel: int | None = None,
        primary_stride: int = 1,
        norm: str = "batch",
        primary_dim: int = 8,
        class_dim: int = 16,
        decoder: tuple[int, ...] | None = (512, 1024),
        routing: str | Routing = "self_attention",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        check_count("first_kernel", first_kernel)
        check_choice("norm", norm, ("batch", "instance"))
        sizes = list(self.image_size)
        layers: list[nn.Module] = []
        channels = in_channels
        for number, (wide, stride) in enumerate(zip(CHANNELS, check_counts("strides", strides, 4)), start=1):
            kernel = first_kernel if number == 1 else 3
            sizes = [conv_extent(self.name, f"convolution {number}", size, kernel, stride) for size in sizes]
            layers += [nn.Conv2d(channels, wide, kernel, stride), *activation_and_norm(norm, wide)]
            channels = wide
        self.convolutions = nn.Sequential(*layers)
        kernels = sizes if primary_kernel is None else [check_count("primary_kernel", primary_kernel)] * 2
        check_count("primary_stride", primary_stride)
        places = [
            conv_extent(self.name, "primary capsule layer", size, kernel, primary_stride)
            for size, kernel in zip(sizes, kernels)
        ]
        if places != [1, 1]:
            raise ValueError(
                f"primary_kernel={primary_kernel} leaves {places[0]}×{places[1]} positions of a map of "
                f"{sizes[0]}×{sizes[1]}, and the network has one; leave primary_kernel out"
            )
        self.primary = nn.Conv2d(
            channels, channels, (kernels[0], kernels[1]), stride=primary_stride, groups=channels
        )
        if channels % check_count("primary_dim", primary_dim):
            raise ValueError(f"primary_dim must divide {channels}, got {primary_dim}")
        self.primary_dim = primary_dim
        self.classes = DenseCaps(
            channels // primary_dim, primary_dim, num_classes, class_dim, routing=routing, **routing_options
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if decoder is not None:
            decoder = check_counts("decoder", decoder)
            self.decoder = Decoder(num_classes, class_dim, (in_channels, *self.image_size), decoder)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]` and draw the capsule `target` `[B]`, or else the longest."""
        self.check_images(images)
        features = self.primary(self.convolutions(images)).flatten(1)
        poses = squash(at_least_float32(features.unflatten(1, (-1, self.primary_dim))), "exp")
        routed = self.classes(Capsules.from_vectors(poses))
        drawn = None
        if self.decoder is not None:
            drawn = self.reconstruct(routed.capsules, longest(routed.activation, target))
        return Output(routed.activation, routed.logits, routed.capsules, drawn)


def activation_and_norm(norm: str, channels: int) -> tuple[nn.Module, nn.Module]:
    """The published order: activation first, then normalization.

    One group per channel is instance normalization, which PyTorch's own layer of that name refuses to compute
    for an empty batch.
    """
    if norm == "batch":
        return nn.ReLU(), nn.BatchNorm2d(channels)
    return nn.LeakyReLU(0.3), nn.GroupNorm(channels, channels)


# The paper gives the mean squared error of 784 pixels a weight of 0.392, which is 0.0005 for their sum.
RECIPE = {"loss": {"name": "margin", "reconstruction": 0.0005}}


@register_model(recipe=RECIPE)
def efficient_capsnet(**options: Any) -> EfficientCapsNet:
    """The paper's MNIST network: 162 K parameters on 28×28, and a decoder of 1.4 M."""
    return EfficientCapsNet(**options)


# Of two digits each has a weight of 0.196, and the images have 1,296 pixels.
OVERLAP_RECIPE = {"loss": {"name": "margin", "reconstruction": 0.00015}}


@register_model(recipe=OVERLAP_RECIPE)
def efficient_capsnet_overlap(**options: Any) -> EfficientCapsNet:
    """The paper's network for overlapping digits: 155 K parameters on 36×36, and a decoder."""
    layout: dict[str, Any] = {"strides": (1, 1, 2, 2)}
    if options.get("image_size") in (36, (36, 36)):
        # As published: its 6×6 map loses a row and a column. For other sizes the kernel covers the map.
        layout |= {"primary_kernel": 5, "primary_stride": 2}
    return EfficientCapsNet(**{**layout, **options})


@register_model(recipe=RECIPE)
def efficient_capsnet_norb(**options: Any) -> EfficientCapsNet:
    """The paper's smallNORB network: 152 K parameters on 48×48 stereo images; without its own decoder."""
    layout = {"first_kernel": 7, "strides": (2, 1, 1, 2), "norm": "instance", "decoder": None}
    return EfficientCapsNet(**{**layout, **options})
