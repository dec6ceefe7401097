from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_number, check_tensor
from torchcaps.models import PartsCapsNet
from torchcaps.models.base import evaluating
from torchcaps.parsing.checks import check_network, check_pixels
from torchcaps.parsing.parts import parse_parts
from torchcaps.parsing.paths import parse_paths
from torchcaps.parsing.tree import Names, ParseTree

# Images at a time: the couplings of all capsule layers are kept for each.
_BATCH = 32


@torch.no_grad()
def parse(
    model: nn.Module,
    images: Tensor,
    *,
    names: Names | None = None,
    threshold: float = 0.5,
    children: int = 3,
) -> list[ParseTree]:
    """What a capsule network found in each image, and what belongs to what.

    For a `PartsCapsNet` the levels are group, whole and part; several things of one type are several nodes,
    and parts that belong to nothing are in `loose`.

    For every other capsule network these are the active paths. The top nodes are the class capsules with an
    activation of at least `threshold`, at most `children` of them, or the one with the highest. Below a
    capsule are the capsules of the next layer that give it most, by coupling times activation, down to the
    primary capsules on their grid. A capsule is in the tree at most once, below the one that takes most of
    it.

    Args:
        model: any network with capsule layers; it is left in the mode it was in.
        images: float `[B, C, H, W]`, prepared as in training.
        names: of the types.
        threshold: the least presence 0..1 of a whole, of a loose part, or of a class capsule. A
            `PartsCapsNet` finds no whole with a presence below 0.5: a lower threshold shows more loose parts
            only.
        children: how many capsules to show below another; the share of those that are left out is told. A
            whole of a `PartsCapsNet` shows all of its parts.

    Returns:
        One tree for each image.

    Raises:
        ValueError: an argument is not as described, a pixel is not a finite number, or the pixels given to a
            network of torchcaps are far outside 0..1.

    Example:
        >>> from torchcaps import create_model
        >>> model = create_model("capsnet_small", num_classes=2, in_channels=1, image_size=28)
        >>> tree = parse(model, torch.rand(3, 1, 28, 28), names=Names(("cat", "dog")))[0]
        >>> tree.roots[0].name in ("cat", "dog"), [child.level for child in tree.roots[0].children]
        (True, ['primary', 'primary', 'primary'])
    """
    check_network(model)
    check_tensor("images", images, "B C H W")
    check_pixels(images, model)
    if check_number("threshold", threshold) > 1:
        raise ValueError(f"threshold must be at most 1, got {threshold!r}")
    check_count("children", children)
    if names is not None and not isinstance(names, Names):
        raise ValueError(
            'names must be torchcaps.parsing.Names, such as Names(classes=("cat", "dog")), '
            f"got {type(names).__name__}"
        )
    names = names or Names()
    trees: list[ParseTree] = []
    if not len(images):
        return trees
    with evaluating(model):
        for batch in images.split(_BATCH):
            if isinstance(model, PartsCapsNet):
                trees += parse_parts(model, batch, names, threshold)
            else:
                trees += parse_paths(model, batch, names, threshold, children)
    return trees
