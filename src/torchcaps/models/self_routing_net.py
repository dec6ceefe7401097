from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer, DenseCaps, NormalizedPrimaryCaps
from torchcaps.models.backbones import create_backbone
from torchcaps.models.base import CapsuleModel, Output
from torchcaps.models.registry import register_model
from torchcaps.poses import PoseSpace
from torchcaps.routing import ROUTINGS
from torchcaps.votes import DenseVotes


class SelfRoutingNet(CapsuleModel):
    """The one-layer network of *Self-Routing Capsule Networks* (Hahn, Pyeon, Kim 2019), SR-1.

    backbone → primary capsules 3×3 with batch normalization → class capsules over the whole grid, with
    weights of their own for every position.

    With another routing it is the network that the paper compares with: DR-1 with `"dynamic"`, EM-1 with
    `"em"` and `pose="matrix"`.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image.
        backbone: a trunk of torchcaps, the name of a timm model, or a module that maps images to features.
        types: primary capsule types.
        pose: pose space; with `"self_routing"` only `"vector"`.
        pose_dim: numbers in a pose.
        routing: name of a routing. With `"self_routing"` the classes need no votes: their poses are means of
            the primary capsules' own.
        routing_options: such as `iterations`.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        in_channels: int,
        image_size: int | tuple[int, int],
        backbone: str | nn.Module = "resnet20",
        types: int = 32,
        pose: str = "vector",
        pose_dim: int = 16,
        routing: str = "self_routing",
        **routing_options: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, image_size=image_size)
        below = create_backbone(backbone, in_channels, self.image_size)
        self.backbone = below.network
        self.primary = NormalizedPrimaryCaps(
            below.channels,
            types,
            pose_dim,
            kernel_size=3,
            padding=1,
            lengths=not ROUTINGS[routing].uses_activation,
        )
        children = prod(below.grid) * types
        self.classes: CapsuleLayer
        if routing == "self_routing":
            if pose != "vector":
                raise ValueError(
                    f"self-routing's class capsules have no votes, so pose={pose!r} has no effect; leave it "
                    "out, or name another routing"
                )
            self.classes = VotelessCaps(children, pose_dim, num_classes, **routing_options)
        else:
            options: dict[str, Any] = {"pose": pose, "routing": routing, **routing_options}
            self.classes = DenseCaps(children, pose_dim, num_classes, pose_dim, **options)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`; there is no decoder, so `target` is not used."""
        self.check_images(images)
        routed = self.classes(self.primary(self.backbone(images)))
        return Output(routed.activation, routed.logits, routed.capsules)


class VotelessCaps(DenseCaps):
    """`DenseCaps` of self-routing for a last layer: the children choose their parents, and nothing else.

    The couplings of self-routing do not depend on the votes, so activations need none. Here a parent's pose
    is the mean of its children's own poses.

    Args:
        in_capsules: number of children, N.
        dim: numbers in a pose.
        out_capsules: number of parents, J.
        routing_options: of self-routing.

    Shape: as `DenseCaps`, without a `weight`.

    Example:
        >>> layer = VotelessCaps(6, 8, 3)
        >>> layer(torch.randn(2, 6, 8)).pose.shape, [name for name, _ in layer.named_parameters()]
        (torch.Size([2, 3, 8]), ['routing.bias', 'routing.weight'])
    """

    def __init__(self, in_capsules: int, dim: int, out_capsules: int, **routing_options: Any) -> None:
        space = OwnPose(dim, dim)
        super().__init__(
            in_capsules, dim, out_capsules, dim, pose=space, routing="self_routing", **routing_options
        )
        del self.weight
        self.register_buffer("weight", space.initial_weight(in_capsules, out_capsules), persistent=False)

    def votes(self, capsules: Capsules) -> DenseVotes:
        """Votes `[B, 1, N, J, D]`."""
        return OwnVotes(capsules.flatten().pose, self.weight, self.space)


class OwnPose(PoseSpace):
    """The vote of a child is its own pose: there are no weights."""

    recompute = True

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """No numbers."""
        return (0,)

    def initial_weight(self, *pairs: int) -> Tensor:
        """A tensor without elements, `[*pairs, 0]`."""
        return torch.zeros(*pairs, 0)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        """The pose of each child, once per parent: `[..., I, J, D]`."""
        return pose.unsqueeze(-2).expand(*pose.shape[:-1], weight.shape[-2], self.out_dim)


class OwnVotes(DenseVotes):
    """Votes in `OwnPose`: a child has the same vote for all parents, so a mean needs no tensor of votes."""

    def mean(self, share: Tensor) -> Tensor:
        """See `Votes.mean`; the sum is taken around the mean pose of the children."""
        if not isinstance(self.space, OwnPose):  # other votes of the same children, see `with_weight`
            return super().mean(share)
        share, center = share.squeeze(1), self.pose.detach().mean(1, keepdim=True)
        near = share.transpose(1, 2) @ (self.pose - center)
        return (near + center * share.detach().sum(1).unsqueeze(-1)).unsqueeze(1)


# The paper's optimizer; the loss, the negative log-likelihood of the activations, is cross-entropy here.
RECIPE = {
    "optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 1e-4},
    "training": {"batch_size": 64},
}


@register_model(recipe=RECIPE)
def self_routing_resnet20(**options: Any) -> SelfRoutingNet:
    """SR-1 on ResNet-20: 0.93 M parameters on 32×32 color images."""
    return SelfRoutingNet(**options)
