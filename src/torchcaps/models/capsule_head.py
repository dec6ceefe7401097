"""One backbone, three heads: capsules, average pooling, and a dense layer."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_counts
from torchcaps.layers import CapsuleLayer, ClassCaps, ConvCaps, Decoder, DenseCaps, NormalizedPrimaryCaps
from torchcaps.models.backbones import Backbone, create_backbone
from torchcaps.models.base import CapsuleModel, Model, Output, longest, softmax_output
from torchcaps.models.matrix_capsnet import TRAINABLE_EM
from torchcaps.models.registry import register_model
from torchcaps.models.trunks.base import Trunk, conv_bn_relu
from torchcaps.routing import ROUTINGS, Routing


class CapsuleHead(CapsuleModel):
    """Capsules on top of any convolutional network.

    backbone → primary capsules with batch normalization → convolutional capsules 3×3 stride 2, if any →
    class capsules.

    Args:
        backbone: a trunk of torchcaps (`torchcaps.models.trunks.list_trunks()`), the name of a timm model, or
            a module that maps images to features `[B, C, H, W]`.
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        types: primary capsule types.
        pose: pose space, such as `"matrix"` or `"vector"`.
        pose_dim: numbers in a pose.
        kernel_size: of the primary capsules' convolutions, which are padded: an odd number, such as 1 or 3.
        hidden: capsule types of the convolutional layers between primary and class capsules.
        class_layer: `"grid"` for `ClassCaps`, whose weights are shared over positions, so that images of any
            size are read; `"dense"` for `DenseCaps`, with a weight of its own for every position. By default
            `"dense"` for vectors and `"grid"` for all other poses.
        coordinates: add the position of each capsule to its vote, with a `"grid"`.
        decoder: hidden sizes of a decoder that draws the class capsule; `None` for no decoder.
        pretrained: weights of a timm backbone: `True` for timm's default, or a tag such as `"a1_in1k"`.
        stage: which feature map of a timm backbone, from 0; -1 is the last and smallest. A small image needs
            an earlier one: the last of most models has 1/32 of the image's size.
        routing: name of a routing, or a `Routing`.
        routing_options: such as `iterations`; the same for all capsule layers. EM starts from `TRAINABLE_EM`.

    Example:
        >>> import torch
        >>> model = CapsuleHead("resnet20", 10, in_channels=3, image_size=32, types=8, routing="em")
        >>> model(torch.rand(2, 3, 32, 32)).capsules.pose.shape
        torch.Size([2, 10, 16])
        >>> own = CapsuleHead(nn.Conv2d(3, 8, 5, stride=4), 10, in_channels=3, image_size=32, pose="vector",
        ...                   routing="dynamic")
        >>> own(torch.rand(2, 3, 32, 32)).scores.shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        backbone: str | nn.Module = "resnet20",
        num_classes: int = 10,
        *,
        in_channels: int,
        image_size: int | tuple[int, int],
        types: int = 32,
        pose: str = "matrix",
        pose_dim: int = 16,
        kernel_size: int = 1,
        hidden: tuple[int, ...] = (),
        class_layer: str | None = None,
        coordinates: bool = True,
        decoder: tuple[int, ...] | None = None,
        pretrained: bool | str = False,
        stage: int = -1,
        routing: str | Routing = "em",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        class_layer = class_layer or ("dense" if pose == "vector" else "grid")
        check_choice("class_layer", class_layer, ("dense", "grid"))
        if check_count("kernel_size", kernel_size) % 2 == 0:
            raise ValueError(
                f"kernel_size must be odd, so that the padded grid keeps its size, got {kernel_size}"
            )
        if routing == "em":
            routing_options = {**TRAINABLE_EM, **routing_options}
        below = create_backbone(backbone, in_channels, self.image_size, pretrained=pretrained, stage=stage)
        kind = ROUTINGS[routing] if isinstance(routing, str) else routing
        self.backbone = below.network
        self.primary = NormalizedPrimaryCaps(
            below.channels,
            types,
            pose_dim,
            kernel_size=kernel_size,
            padding=kernel_size // 2,
            lengths=not kind.uses_activation,
        )
        options: dict[str, Any] = {"pose": pose, "routing": routing, **routing_options}
        height, width = below.grid
        self.hidden = nn.Sequential()
        for count in check_counts("hidden", hidden):
            layer = ConvCaps(types, count, kernel_size=3, stride=2, padding=1, in_dim=pose_dim, **options)
            self.hidden.append(layer)
            types, height, width = count, (height + 1) // 2, (width + 1) // 2
        self.classes: CapsuleLayer
        if class_layer == "dense":
            self.classes = DenseCaps(height * width * types, pose_dim, num_classes, pose_dim, **options)
        else:
            self.classes = ClassCaps(types, num_classes, in_dim=pose_dim, coordinates=coordinates, **options)
        if decoder is not None:
            decoder = check_counts("decoder", decoder)
            self.decoder = Decoder(num_classes, pose_dim, (in_channels, *self.image_size), decoder)
        self.any_size = class_layer == "grid" and decoder is None
        _mark_new_parameters(self, pretrained)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`; a decoder draws the capsule `target` `[B]`, or else the longest."""
        routed = self.classes(self.hidden(self.primary(_features(self, images))))
        drawn = None
        if self.decoder is not None:
            drawn = self.reconstruct(routed.capsules, longest(routed.activation, target))
        return Output(routed.activation, routed.logits, routed.capsules, drawn)


class PooledTrunk(Model):
    """The baseline of `CapsuleHead` that pools: global average pooling and a linear layer.

    Args:
        backbone: see `CapsuleHead`.
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image; others are read as well.
        pretrained: see `CapsuleHead`.
        stage: see `CapsuleHead`.

    Example:
        >>> import torch
        >>> model = PooledTrunk("resnet20", 10, in_channels=3, image_size=32)
        >>> model(torch.rand(2, 3, 32, 32)).scores.shape
        torch.Size([2, 10])
    """

    any_size = True

    def __init__(
        self,
        backbone: str | nn.Module = "resnet20",
        num_classes: int = 10,
        *,
        in_channels: int,
        image_size: int | tuple[int, int],
        pretrained: bool | str = False,
        stage: int = -1,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        below = create_backbone(backbone, in_channels, self.image_size, pretrained=pretrained, stage=stage)
        self.backbone = below.network
        self.linear = nn.Linear(below.channels, num_classes)
        _mark_new_parameters(self, pretrained)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`."""
        return softmax_output(self.linear(_features(self, images).mean((2, 3))))


class DenseTrunk(Model):
    """The baseline of `CapsuleHead` that keeps positions: a linear layer on the whole feature map.

    Args:
        backbone: see `CapsuleHead`.
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        channels: of a 3×3 convolution with batch normalization and ReLU in between, in place of the primary
            capsules; `None` for none. Hahn et al. 2019 compare with 512.
        pretrained: see `CapsuleHead`.
        stage: see `CapsuleHead`.
    """

    def __init__(
        self,
        backbone: str | nn.Module = "resnet20",
        num_classes: int = 10,
        *,
        in_channels: int,
        image_size: int | tuple[int, int],
        channels: int | None = None,
        pretrained: bool | str = False,
        stage: int = -1,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        below = create_backbone(backbone, in_channels, self.image_size, pretrained=pretrained, stage=stage)
        self.backbone = below.network
        self.conv = nn.Sequential()
        if channels is not None:
            self.conv = conv_bn_relu(below.channels, check_count("channels", channels))
            below = Backbone(below.network, channels, below.grid)
        self.linear = nn.Linear(below.channels * prod(below.grid), num_classes)
        _mark_new_parameters(self, pretrained)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`."""
        return softmax_output(self.linear(self.conv(_features(self, images)).flatten(1)))


def _features(model: Any, images: Tensor) -> Tensor:
    model.check_images(images)
    if isinstance(model.backbone, Trunk):
        model.backbone.grid(images.shape[2:])  # raises for an image that is too small
    features: Tensor = model.backbone(images)
    return features


def _mark_new_parameters(model: Model, pretrained: bool | str) -> None:
    """Record for `freeze=True` which parameters the pretrained backbone does not have."""
    if pretrained:
        names = [name for name, _ in model.named_parameters()]
        model.new_parameters = tuple(name for name in names if not name.startswith("backbone."))


@register_model
def capsule_head(**options: Any) -> CapsuleHead:
    """Capsules on a backbone: `backbone="resnet20"`, another trunk, or the name of a timm model."""
    return CapsuleHead(**options)


@register_model
def pooled_trunk(**options: Any) -> PooledTrunk:
    """The same backbones under global average pooling and a linear layer."""
    return PooledTrunk(**options)


@register_model
def dense_trunk(**options: Any) -> DenseTrunk:
    """The same backbones under a linear layer that sees every position."""
    return DenseTrunk(**options)
