"""Wholes from parts in pixels: a part detector, then constellations; and its convolutions as a CNN."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps._pytrees import serializable
from torchcaps.capsules import Capsules, Instances
from torchcaps.layers import ConstellationCaps, ParsedWholes
from torchcaps.models.base import Model, Output, softmax_output
from torchcaps.models.part_detector import PartDetector, propose_parts
from torchcaps.models.registry import register_model


@serializable
class ParsedImage(NamedTuple):
    """What `PartsCapsNet.parse` finds.

    Attributes:
        parts: instances `[B, K]`.
        wholes: wholes `[B, M]`, and who is part of which.
        groups: groups `[B, G]`, and which whole is part of which; `None` if the network has no groups.
    """

    parts: Instances
    wholes: ParsedWholes
    groups: ParsedWholes | None


class PartsCapsNet(Model):
    """A detector finds parts with their poses; wholes are constellations of parts, groups of wholes.

    The classes are the types of wholes. `Output.capsules` has the best proposal for each of them; `parse`
    finds several wholes in one image. Poses are similarities (a, b, x, y) in the coordinates of the image: -1
    to 1 along its shorter side, with y up.

    The network can be trained from the class of images, or the detector first on known parts, see
    `torchcaps.experiments.wholes`. Groups are trained on the wholes of `parse`.

    Args:
        num_classes: number of types of wholes.
        in_channels: channels of an image.
        image_size: height and width of an image; others are read as well.
        kinds: number of kinds of parts.
        groups: number of types of groups; 0 for a network without groups.
        roles: how many parts of one kind a whole may have, and wholes of one type a group.
        proposals: number of parts that are looked at in an image, the most present.
        channels: channels of the first convolution.

    Example:
        >>> model = PartsCapsNet(num_classes=8, in_channels=1, image_size=64, groups=6)
        >>> found = model.parse(torch.rand(2, 1, 64, 64))
        >>> found.parts.pose.shape, found.wholes.wholes.pose.shape, found.groups.wholes.pose.shape
        (torch.Size([2, 24, 4]), torch.Size([2, 6, 4]), torch.Size([2, 2, 4]))
    """

    any_size = True
    # Pictures are read in more pixels than training images have: a detector reads small parts better, and
    # poses keep their scale. benchmarks/drawings.py counts what is read.
    picture_scale = 1.5

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        kinds: int = 3,
        groups: int = 0,
        roles: int = 2,
        proposals: int = 24,
        channels: int = 20,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        self.proposals = check_count("proposals", proposals)
        self.detector = PartDetector(in_channels, kinds, channels)
        self.wholes = ConstellationCaps(kinds, num_classes, roles)
        self.groups = (
            ConstellationCaps(num_classes, groups, roles) if check_count("groups", groups, 0) else None
        )

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`; there is no decoder, so `target` is not used."""
        proposals = self.wholes(self.find_parts(images))
        scores = torch.sigmoid(proposals.logits)
        return Output(scores, proposals.logits, Capsules(proposals.best, scores))

    def find_parts(self, images: Tensor) -> Instances:
        """The most present parts of images `[B, C, H, W]`, instances `[B, K]`."""
        self.check_images(images)
        return propose_parts(self.detector(images), self.proposals)

    @torch.no_grad()
    def parse(self, images: Tensor, *, wholes: int = 6, groups: int = 2) -> ParsedImage:
        """Find parts, the wholes that they belong to, and the groups of these.

        Args:
            images: `[B, C, H, W]`.
            wholes: the largest number of wholes, M.
            groups: the largest number of groups, G.
        """
        parts = self.find_parts(images)
        found = self.wholes.parse(parts, wholes)
        if self.groups is None:
            return ParsedImage(parts, found, None)
        return ParsedImage(parts, found, self.groups.parse(found.wholes, groups))


class PartsCNN(Model):
    """The convolutions of the part detector under average pooling, and a softmax over the types of wholes.

    The CNN that `PartsCapsNet` is compared with: scores add up to 1, so it cannot say that there is no whole.

    Args:
        num_classes: number of types of wholes.
        in_channels: channels of an image.
        image_size: height and width of an image; others are read as well.
        channels: channels of the first convolution; the deeper ones have twice as many.
    """

    any_size = True

    def __init__(
        self, *, num_classes: int, in_channels: int, image_size: int | tuple[int, int], channels: int = 20
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        detector = PartDetector(in_channels, 1, channels)
        self.first, self.trunk = detector.first, detector.trunk
        self.head = nn.Linear(2 * channels, num_classes)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`."""
        self.check_images(images)
        return softmax_output(self.head(self.trunk(self.first(images)).mean((2, 3))))


RECIPE = {"loss": {"name": "cross_entropy"}, "optimizer": {"lr": 0.003}}


@register_model(recipe=RECIPE)
def parts_capsnet(**options: Any) -> PartsCapsNet:
    """Ten convolutions and constellations, for the worlds `shapes` and `faces`: 79 K with 8 classes."""
    return PartsCapsNet(**options)


@register_model(recipe=RECIPE)
def parts_cnn(**options: Any) -> PartsCNN:
    """The first six convolutions of `parts_capsnet` under global average pooling: 66 K with 8 classes."""
    return PartsCNN(**options)
