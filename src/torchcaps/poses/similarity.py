from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from torchcaps.capsules import length
from torchcaps.poses.base import PoseSpace


class SimilarityPose(PoseSpace):
    r"""A pose is a rotation, scale and shift of the plane; its vote is the product with another.

    The four numbers :math:`(a, b, x, y)` stand for

    .. math::
        \begin{pmatrix} a & -b & x \\ b & a & y \\ 0 & 0 & 1 \end{pmatrix}, \quad
        a = s \cos\theta, \quad b = s \sin\theta

    with angle :math:`\theta`, scale :math:`s` and place :math:`(x, y)`. The weight of a pair is such a matrix
    too: where the parent is, as seen from the child. Products stay in the space. So do weighted means, since
    the matrix is a linear function of the four numbers: every routing can cluster these poses.

    A change of viewpoint, here any rotation, scale and shift of the image, multiplies from the left.

    Args:
        in_dim: 4.
        out_dim: 4.

    Example:
        >>> space = SimilarityPose()
        >>> pose = space.from_parts(*torch.tensor([0.5, 2.0, 3.0, 4.0]))
        >>> space.angle(pose), space.scale(pose)
        (tensor(0.5000), tensor(2.))
        >>> space.compose(torch.randn(2, 6, 4), space.initial_weight(6, 3)).shape
        torch.Size([2, 6, 3, 4])
    """

    default_dim: ClassVar[int] = 4
    recompute: ClassVar[bool] = True
    viewpoints: ClassVar[tuple[str, ...]] = ("rotation", "rigid", "similarity")

    def __init__(self, in_dim: int = 4, out_dim: int = 4) -> None:
        super().__init__(in_dim, out_dim)
        if in_dim != 4 or out_dim != 4:
            raise ValueError(
                f"similarity poses need in_dim = out_dim = 4, got in_dim={in_dim}, out_dim={out_dim}"
            )

    @staticmethod
    def from_parts(angle: Tensor, scale: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Poses `[..., 4]` from angles in radians, scales and places, `[...]` each."""
        return torch.stack([scale * angle.cos(), scale * angle.sin(), x, y], -1)

    @staticmethod
    def angle(pose: Tensor) -> Tensor:
        """Angles from -π to π, `[..., 4]` to `[...]`."""
        return torch.atan2(pose[..., 1], pose[..., 0])

    @staticmethod
    def scale(pose: Tensor) -> Tensor:
        """Scales, `[..., 4]` to `[...]`."""
        return length(pose[..., :2])

    @staticmethod
    def matrix3(pose: Tensor) -> Tensor:
        """Homogeneous matrices, `[..., 4]` to `[..., 3, 3]`."""
        a, b, x, y = pose.unbind(-1)
        zero, one = torch.zeros_like(a), torch.ones_like(a)
        return torch.stack([a, -b, x, b, a, y, zero, zero, one], -1).unflatten(-1, (3, 3))

    @staticmethod
    def inverse(pose: Tensor) -> Tensor:
        """Inverse poses, `[..., 4]` to `[..., 4]`; a pose of scale 0 has none and gives infinite numbers."""
        a, b, x, y = pose.unbind(-1)
        square = a * a + b * b
        a, b = a / square, -b / square
        return torch.stack([a, b, b * y - a * x, -b * x - a * y], -1)

    @staticmethod
    def fit(place: Tensor, pose: Tensor, weight: Tensor) -> Tensor:
        """The pose P that makes the weighted sum of |pose - P @ place|² smallest.

        >>> place = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
        >>> SimilarityPose.fit(place, 2 * place, torch.ones(2))
        tensor([2., 0., 0., 0.])

        Args:
            place: `[..., N, 4]`.
            pose: `[..., N, 4]`.
            weight: `[..., N]`, not all 0.

        Returns:
            `[..., 4]`.
        """
        weight = (weight / weight.sum(-1, keepdim=True)).unsqueeze(-1)
        middle, target = (weight * place[..., 2:]).sum(-2), (weight * pose[..., 2:]).sum(-2)
        # As complex numbers, a + i b and x + i y: 2 N equations p·u = z for p = a + i b of the result.
        u = torch.cat([place[..., :2], place[..., 2:] - middle.unsqueeze(-2)], -2)
        z = torch.cat([pose[..., :2], pose[..., 2:] - target.unsqueeze(-2)], -2)
        weight = torch.cat([weight, weight], -2)
        square = (weight * u.square()).sum((-1, -2)).clamp(min=1e-8)
        a = (weight * u * z).sum((-1, -2)) / square
        b = (weight.squeeze(-1) * (u[..., 0] * z[..., 1] - u[..., 1] * z[..., 0])).sum(-1) / square
        x = target[..., 0] - a * middle[..., 0] + b * middle[..., 1]
        y = target[..., 1] - b * middle[..., 0] - a * middle[..., 1]
        return torch.stack([a, b, x, y], -1)

    @property
    def weight_shape(self) -> tuple[int]:
        """`[4]`."""
        return (4,)

    def initial_weight(self, *pairs: int) -> Tensor:
        """Near the identity, so that a vote starts near the child's own pose."""
        return torch.tensor([1.0, 0.0, 0.0, 0.0]) + 0.1 * torch.randn(*pairs, 4)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        """Matrix product of pose and weight."""
        return _product(pose.unsqueeze(-2), weight)

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """`(2, 3)`."""
        return 2, 3

    def matrix(self, values: Tensor) -> Tensor:
        """The upper two rows of the homogeneous matrix, `[..., 2, 3]`."""
        a, b, x, y = values.unbind(-1)
        return torch.stack([a, -b, x, b, a, y], -1).unflatten(-1, (2, 3))

    def random_transform(self, kind: str | None = None) -> Tensor:
        """A pose `[4]`: a rotation about the origin, with a shift, or with a shift and a scale."""
        kind = self._check_viewpoint(kind)
        angle, x, y = (torch.rand(3, dtype=torch.float64) - 0.5) * torch.tensor([2 * math.pi, 4.0, 4.0])
        here = torch.zeros_like(angle)
        scale = torch.full_like(angle, 1.5 if kind == "similarity" else 1.0)
        return self.from_parts(angle, scale, *((here, here) if kind == "rotation" else (x, y)))

    def move(self, pose: Tensor, transform: Tensor) -> Tensor:
        """Matrix product of transform and pose."""
        return _product(transform.to(pose), pose)

    def coordinates(self) -> tuple[int, int]:
        """Row and column are y and x."""
        return 3, 2


def _product(first: Tensor, second: Tensor) -> Tensor:
    a, b, x, y = first.unbind(-1)
    c, d, u, v = second.unbind(-1)
    return torch.stack([a * c - b * d, a * d + b * c, a * u - b * v + x, b * u + a * v + y], -1)
