from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from torchcaps._checks import check_tensor
from torchcaps.capsules import Instances
from torchcaps.layers import ConstellationCaps
from torchcaps.models import PartsCapsNet
from torchcaps.models.base import evaluating
from torchcaps.parsing.checks import check_parts_network, check_pixels
from torchcaps.poses.similarity import SimilarityPose

_BATCH = 64


@torch.no_grad()
def turn_upright(model: PartsCapsNet, images: Tensor | Sequence[Tensor]) -> None:
    """Choose the angle 0 of each type of wholes and groups: how it stands on average in these images.

    The weights of a `PartsCapsNet` know wholes up to a constant rotation for each type. This turns the
    relations of each type about its origin, in place. No score, no place and no scale changes, and no type
    that is not found.

    Args:
        model: trained.
        images: `[B, C, H, W]`, or a sequence of images `[C, H, W]`, which may differ in size; wholes and
            groups are upright in them on average.

    Example:
        >>> model = PartsCapsNet(num_classes=2, in_channels=1, image_size=32, channels=4)
        >>> turn_upright(model, torch.rand(4, 1, 32, 32))
    """
    check_parts_network(model)
    if not len(images):
        raise ValueError("images must hold at least one image, got none")
    parsed = []
    with evaluating(model):
        for batch in _batches(images):
            check_pixels(batch, model)
            parsed.append(model.parse(batch))
        back = _turns([each.wholes.wholes for each in parsed], model.wholes)
        model.wholes.weight.copy_(_product(model.wholes.weight, back[None, :, None]))
        if model.groups is not None:
            turn = SimilarityPose.inverse(back)
            # The wholes are the children of groups, and were turned.
            model.groups.weight.copy_(_product(turn[:, None, None], model.groups.weight))
            found = [each.groups.wholes for each in parsed if each.groups is not None]
            back = _turns(found, model.groups)
            model.groups.weight.copy_(_product(model.groups.weight, back[None, :, None]))


def _batches(images: Tensor | Sequence[Tensor]) -> Iterator[Tensor]:
    if isinstance(images, Tensor):
        check_tensor("images", images, "B C H W")
        yield from images.split(_BATCH)
        return
    for number, image in enumerate(images):
        check_tensor(f"images[{number}]", image, "C H W")
        yield image.unsqueeze(0)


def _turns(found: list[Instances], layer: ConstellationCaps) -> Tensor:
    """The rotation `[J, 4]` that takes the mean angle of each type away."""
    kind, pose, activation = (torch.cat([each[part].flatten(0, 1) for each in found]) for part in range(3))
    unit = pose[:, :2] / pose[:, :2].norm(dim=-1, keepdim=True).clamp(min=1e-12) * activation.unsqueeze(-1)
    mean = unit.new_zeros(layer.wholes, 2).index_add(0, kind, unit)
    size = mean.norm(dim=-1, keepdim=True)
    here = torch.tensor([1.0, 0.0]).to(mean)
    a, b = torch.where(size > 1e-6, mean / size.clamp(min=1e-12), here).unbind(-1)
    zero = torch.zeros_like(a)
    return torch.stack([a, -b, zero, zero], -1)


def _product(first: Tensor, second: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(first.shape, second.shape)
    return SimilarityPose().move(second.expand(shape), first.expand(shape))
