"""What a head stands on: a trunk of torchcaps, a model of timm, or any module that gives a feature map."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchcaps._checks import check_tensor
from torchcaps._extras import require
from torchcaps._registry import suggest
from torchcaps.models.trunks import TRUNKS, Trunk, create_trunk, list_trunks


class TimmBackbone(nn.Module):
    """A model of timm without its classifier: images `[B, C, H, W]` to one feature map.

    Args:
        name: of the model, as timm lists it.
        in_channels: channels of an image.
        pretrained: `True` for timm's default weights of this model, or the tag of others, such as
            `"a1_in1k"`; they are downloaded.
        stage: which of the model's feature maps, from 0; -1 is the last and smallest.
    """

    def __init__(
        self, name: str, in_channels: int, *, pretrained: bool | str = False, stage: int = -1
    ) -> None:
        super().__init__()
        try:
            timm = require("timm", extra="timm", purpose=f"{name!r}, not a trunk of torchcaps itself,")
        except RuntimeError as error:  # of torchvision, if its compiled part is for another PyTorch
            raise ImportError(
                f"timm cannot be imported ({error}): install the torchvision that was built for torch "
                f"{torch.__version__}"
            ) from error
        if not timm.is_model(name.partition(".")[0]):
            near = suggest(name, [*list_trunks(), *timm.list_models()], most=5)
            raise ValueError(f"unknown backbone {name!r}, neither a trunk of torchcaps nor of timm: {near}")
        tag = f".{pretrained}" if isinstance(pretrained, str) else ""
        self.network = timm.create_model(
            f"{name}{tag}",
            pretrained=bool(pretrained),
            in_chans=in_channels,
            features_only=True,
            out_indices=(stage,),
        )
        self.out_channels: int = self.network.feature_info.channels()[-1]

    def forward(self, images: Tensor) -> Tensor:
        """Features `[B, out_channels, H', W']`."""
        (features,) = self.network(images)
        # Some models, such as Swin, keep their channels last.
        return features if features.shape[1] == self.out_channels else features.permute(0, 3, 1, 2)


class Backbone(NamedTuple):
    """A network and the feature map that it gives for the images it was built for.

    Attributes:
        network: images `[B, C, H, W]` to features `[B, channels, *grid]`.
        channels: of the features.
        grid: height and width of the features.
    """

    network: nn.Module
    channels: int
    grid: tuple[int, int]


def create_backbone(
    backbone: str | nn.Module,
    in_channels: int,
    image_size: tuple[int, int],
    *,
    pretrained: bool | str = False,
    stage: int = -1,
) -> Backbone:
    """A backbone by name, or the given module, with the size of its features.

    Args:
        backbone: one of `list_trunks()`, the name of a timm model, or a module that maps images
            `[B, C, H, W]` to features `[B, C', H', W']`. A module that is not a `Trunk` is run once on an
            image of zeros to see what it gives.
        in_channels: channels of an image.
        image_size: height and width of an image.
        pretrained: see `TimmBackbone`.
        stage: see `TimmBackbone`.

    Example:
        >>> create_backbone("conv6", 1, (32, 32)).grid
        (4, 4)
        >>> create_backbone(nn.Conv2d(3, 8, 5, stride=2), 3, (32, 32))[1:]
        (8, (14, 14))
    """
    network: nn.Module
    if isinstance(backbone, str) and backbone not in TRUNKS:
        network = TimmBackbone(backbone, in_channels, pretrained=pretrained, stage=stage)
    elif pretrained or stage != -1:
        option = "pretrained" if pretrained else "stage"
        raise ValueError(f"{option} is for backbones of timm, and {_describe(backbone)} is none")
    elif isinstance(backbone, str):
        network = create_trunk(backbone, in_channels)
    elif isinstance(backbone, nn.Module):
        network = backbone
    else:
        raise ValueError(f"backbone must be a name or a module, got {_describe(backbone)}")
    if isinstance(network, Trunk):
        return Backbone(network, network.out_channels, network.grid(image_size))
    channels, height, width = _feature_shape(network, in_channels, image_size)
    return Backbone(network, channels, (height, width))


def _feature_shape(network: nn.Module, in_channels: int, image_size: tuple[int, int]) -> tuple[int, int, int]:
    """Channels, height and width of the features, from one forward pass that leaves no trace."""
    weight = next(network.parameters(), torch.empty(0))
    images = torch.zeros(1, in_channels, *image_size, dtype=weight.dtype, device=weight.device)
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        with torch.no_grad():
            features = network(images)
    except (RuntimeError, ValueError, AssertionError) as fault:
        raise ValueError(
            f"the backbone cannot read images of {list(images.shape[1:])}, which are in_channels and "
            f"image_size: {fault}"
        ) from fault
    finally:
        for module, mode in modes.items():
            module.training = mode
    check_tensor("the output of the backbone", features, "B C H W", B=1)
    channels, height, width = features.shape[1:]
    return channels, height, width


def _describe(backbone: object) -> str:
    return repr(backbone) if isinstance(backbone, str) else type(backbone).__name__
