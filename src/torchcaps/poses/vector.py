from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from torchcaps.poses.base import PoseSpace


class VectorPose(PoseSpace):
    r"""A pose is a vector, and its vote a linear map of it: :math:`\hat u = u W` (Sabour et al. 2017).

    Args:
        in_dim: numbers in a child's pose.
        out_dim: numbers in a parent's pose.

    Example:
        >>> space = VectorPose(8, 16)
        >>> space.compose(torch.ones(2, 6, 8), space.initial_weight(6, 3)).shape
        torch.Size([2, 6, 3, 16])
    """

    default_dim: ClassVar[int] = 16

    @classmethod
    def of_weight(cls, in_dim: int, weight: Tensor) -> PoseSpace:
        """See `PoseSpace.of_weight`."""
        return cls(*weight.shape[-2:])

    @property
    def weight_shape(self) -> tuple[int, int]:
        """`[D_in, D_out]`."""
        return self.in_dim, self.out_dim

    def initial_weight(self, *pairs: int) -> Tensor:
        """N(0, 0.1²): from N(0, 1) a network does not train once the softmax runs over parents."""
        return 0.1 * torch.randn(*pairs, *self.weight_shape)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        """Matrix product."""
        return torch.einsum("...id,ijde->...ije", pose, weight)

    def compose_sum(self, pose: Tensor, weight: Tensor) -> Tensor:
        """Matrix product over children and their numbers."""
        return torch.einsum("...id,ijde->...je", pose, weight)

    def coordinates(self) -> tuple[int, int] | None:
        """The first two numbers."""
        return (0, 1) if self.out_dim >= 2 else None
