"""A notice for those whose images are too large for the network they chose."""

from __future__ import annotations

import logging

from torch import nn

LOGGER = logging.getLogger(__name__)
# Weight, gradient and Adam's two averages of so many float32 numbers take 1.6 GB.
MANY = 100_000_000


def notice_large_layer(model: nn.Module) -> None:
    """Log a warning if one tensor of weights is so large that the size of the images must be the reason.

    Dense capsules have weights for every position: the class layer of `capsnet` has 443 million at 224×224.
    Networks that share weights between positions do not grow with the image.
    """
    name, size = max(
        ((name, each.numel()) for name, each in model.named_parameters()), key=lambda each: each[1]
    )
    if size > MANY:
        LOGGER.warning(
            f"{name} has {size / 1e6:.0f} million weights, {16 * size / 1e9:.1f} GB with gradient and Adam: "
            "it grows with the image. Take smaller images, or a network that shares weights between "
            "positions, such as shared_capsnet or matrix_capsnet"
        )
