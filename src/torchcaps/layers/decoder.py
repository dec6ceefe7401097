from __future__ import annotations

from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_counts, check_dtype, check_flag, check_target, check_tensor


class Decoder(nn.Module):
    """Draws the image of one class capsule from its pose alone, or of all capsules together.

    All capsules but the chosen one are set to zero, so that the network learns to put everything needed to
    draw an object into the pose of its class capsule. Without this mask the decoder sees all poses; Gu et al.
    2021 found networks trained so to be more robust to affine transformations.

    Args:
        classes: number of class capsules, J.
        dim: numbers in their pose, D.
        image_shape: (channels, height, width) of what is drawn.
        hidden: sizes of the hidden layers.
        masked: draw the chosen capsule alone.

    Shape: pose `[B, J, D]`, target `[B]` to images `[B, C, H, W]` with values in 0..1.

    Example:
        >>> decoder = Decoder(10, 16, (1, 28, 28))
        >>> decoder(torch.randn(2, 10, 16), torch.tensor([3, 7])).shape
        torch.Size([2, 1, 28, 28])
    """

    def __init__(
        self,
        classes: int,
        dim: int,
        image_shape: tuple[int, int, int],
        hidden: tuple[int, ...] = (512, 1024),
        *,
        masked: bool = True,
    ) -> None:
        super().__init__()
        self.classes, self.dim = check_count("classes", classes), check_count("dim", dim)
        self.masked = check_flag("masked", masked)
        self.image_shape = check_counts("image_shape", image_shape, 3)
        sizes = [classes * dim, *check_counts("hidden", hidden), prod(self.image_shape)]
        layers: list[nn.Module] = []
        for size_in, size_out in pairwise(sizes):
            layers += [nn.Linear(size_in, size_out), nn.ReLU()]
        layers[-1] = nn.Sigmoid()
        self.layers = nn.Sequential(*layers)

    def forward(self, pose: Tensor, target: Tensor) -> Tensor:
        """Draw the capsule `target` of each sample; unmasked, the target makes no difference."""
        check_tensor("pose", pose, "B J D", J=self.classes, D=self.dim)
        weight = next(self.parameters(), pose)  # quantized layers have no parameters
        if weight.dtype in (torch.float16, torch.bfloat16):
            pose = pose.to(weight.dtype)  # routing gives float32 even in a network of half precision
        check_dtype("pose", pose, weight)
        check_target(target, pose)
        if not self.masked:
            return self.layers(pose.flatten(1)).unflatten(1, self.image_shape)
        # The chosen pose is copied into zeros, not multiplied by a mask, so that infinities of other capsules
        # stay out. Gathering that capsule's weights per sample instead was measured 2 to 7 times slower.
        place = target.long()[:, None, None].expand(-1, 1, self.dim)
        alone = torch.zeros_like(pose).scatter(1, place, pose.gather(1, place))
        return self.layers(alone.flatten(1)).unflatten(1, self.image_shape)
