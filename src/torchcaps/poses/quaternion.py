from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from torchcaps.capsules import length
from torchcaps.poses.base import PoseSpace

# A shorter quaternion has no direction: it counts as 0, and so does its gradient, which would be 1 / length.
MIN_LENGTH = 1e-10
# The 2^10th power of a matrix: the largest eigenvalue stands out if it exceeds the next by 1 %.
SQUARINGS = 10


class QuaternionPose(PoseSpace):
    r"""A pose is a rotation in space, as a unit quaternion, and F features that do not turn with it.

    The vote of a child is its rotation followed from the right by a learned one, and a linear map of its
    features:

    .. math:: (q, f) \mapsto \Big(\frac{q}{\|q\|} \circ \frac{w}{\|w\|},\; f W\Big)

    The quaternions :math:`q` and :math:`-q` are the same rotation. Rotations cannot be added, so a routing
    must work with the mean and the distance of this space: `kmeans` with the euclidean metric, and `em` with
    a spherical or fixed covariance. Quaternion poses: Özcan et al. 2020.

    - The **mean** rotation under weights :math:`s_i` is the unit quaternion that maximizes
      :math:`\sum_i s_i (q \cdot q_i)^2`: the first eigenvector of :math:`\sum_i s_i q_i q_i^\top`, found by
      squaring this 4×4 matrix 10 times. Its sign is such that its largest number is positive. Features have
      an ordinary mean. Where votes cancel, as two that are half a turn apart, no mean stands out: the
      result is then some unit quaternion, with finite gradients.
    - The squared **distance** is :math:`\theta^2 + \|f - f'\|^2` with the angle :math:`\theta` in radians, up
      to π, of the rotation from one pose to the other. It is computed as
      :math:`\theta = 4 \arcsin(\min \|q \mp q'\| / 2)`, which keeps its digits near 0 and has finite slopes
      everywhere, unlike :math:`2 \arccos |q \cdot q'|`.

    A quaternion of length 0 has no direction. It stays 0 in a vote and does not count in a mean.

    Args:
        in_dim: 4 + the number of features of a child.
        out_dim: 4 + the number of features of a parent.

    Example:
        >>> space = QuaternionPose(4 + 8, 4 + 16)
        >>> space.compose(torch.randn(2, 6, 12), space.initial_weight(6, 3)).shape
        torch.Size([2, 6, 3, 20])
        >>> half_turn = torch.tensor([0.0, 0.0, 0.0, 1.0])
        >>> QuaternionPose().distance(torch.tensor([1.0, 0.0, 0.0, 0.0]), half_turn).sqrt()
        tensor(3.1416)
    """

    default_dim: ClassVar[int] = 4
    linear: ClassVar[bool] = False
    viewpoints: ClassVar[tuple[str, ...]] = ("rotation",)

    def __init__(self, in_dim: int = 4, out_dim: int = 4) -> None:
        super().__init__(in_dim, out_dim)
        if in_dim < 4 or out_dim < 4:
            raise ValueError(
                "quaternion poses have 4 numbers and then the features, so in_dim and out_dim must be at "
                f"least 4, got in_dim={in_dim}, out_dim={out_dim}"
            )
        self.features = (in_dim - 4, out_dim - 4)

    @classmethod
    def of_weight(cls, in_dim: int, weight: Tensor) -> PoseSpace:
        """See `PoseSpace.of_weight`."""
        return cls(in_dim, 4 + (weight.shape[-1] - 4) // (in_dim - 4) if in_dim > 4 else 4)

    @property
    def weight_shape(self) -> tuple[int]:
        """`[4 + F_in·F_out]`: the quaternion, then the matrix of the features row by row."""
        return (4 + math.prod(self.features),)

    @property
    def intrinsic_dim(self) -> int:
        """3 for the rotation, and the features."""
        return 3 + self.features[1]

    def initial_weight(self, *pairs: int) -> Tensor:
        """Rotations about random axes by random angles; features keep their size on average."""
        half_angle = math.pi * (2 * torch.rand(*pairs, 1) - 1)
        axis = _unit(2 * torch.rand(*pairs, 3) - 1)
        features = torch.randn(*pairs, math.prod(self.features)) / math.sqrt(max(self.features[0], 1))
        return torch.cat([half_angle.cos(), half_angle.sin() * axis, features], -1)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        """Product of rotations, and the linear map of the features."""
        rotation = _product(_unit(pose[..., :4]).unsqueeze(-2), _unit(weight[..., :4]))
        if not self.features[1]:
            return rotation
        features = torch.einsum(
            "...id,ijde->...ije", pose[..., 4:], weight[..., 4:].unflatten(-1, self.features)
        )
        return torch.cat([rotation, features], -1)

    def mean(self, votes: Tensor, share: Tensor) -> Tensor:
        """The rotation nearest to all votes, and the mean of their features."""
        rotation = votes[..., :4]
        moments = torch.einsum("bpij,bpijd,bpije->bpjde", share, rotation, rotation)
        return torch.cat(
            [first_eigenvector(moments), torch.einsum("bpij,bpijd->bpjd", share, votes[..., 4:])], -1
        )

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared angle between rotations in radians, plus the squared distance of features."""
        one, other = first[..., :4], second[..., :4]
        same_side = (one * other).sum(-1, keepdim=True).detach() >= 0
        # At most √2 between unit quaternions on the same side.
        half_chord = (length(one - torch.where(same_side, other, -other)) / 2).clamp(max=math.sqrt(0.5))
        return (4 * half_chord.asin()).square() + (first[..., 4:] - second[..., 4:]).square().sum(-1)

    def random_transform(self, kind: str | None = None) -> Tensor:
        """A unit quaternion `[4]`, every rotation as likely as any other."""
        self._check_viewpoint(kind)
        return _unit(torch.randn(4, dtype=torch.float64))

    def move(self, pose: Tensor, transform: Tensor) -> Tensor:
        """Product of transform and rotation; features stay."""
        return torch.cat([_product(transform.to(pose), pose[..., :4]), pose[..., 4:]], -1)

    def coordinates(self) -> tuple[int, int] | None:
        """The first two features."""
        return (4, 5) if self.features[1] >= 2 else None


def first_eigenvector(matrices: Tensor) -> Tensor:
    r"""The unit eigenvector of the largest eigenvalue, its largest number positive; 0 for a matrix of zeros.

    For symmetric matrices without negative eigenvalues. Their powers, by squaring, tend to a multiple of
    :math:`v v^\top`. As a power is a polynomial, gradients are finite for all matrices, unlike those of
    `torch.linalg.eigh` where two eigenvalues are equal.

    Shape: `[..., 4, 4]` to `[..., 4]`.

    Example:
        >>> first_eigenvector(torch.diag(torch.tensor([1.0, 3.0, 2.0, 0.0])))
        tensor([0., 1., 0., 0.])
    """
    power = matrices / _trace(matrices).clamp(min=MIN_LENGTH)
    for _ in range(SQUARINGS):
        power = power @ power
        power = power / _trace(power).clamp(min=MIN_LENGTH)
    # Every column of the limit is a multiple of the eigenvector; the longest has the most digits.
    longest = power.detach().diagonal(dim1=-2, dim2=-1).argmax(-1)[..., None, None]
    return _unit(power.gather(-1, longest.expand(*power.shape[:-1], 1)).squeeze(-1))


def _unit(vectors: Tensor) -> Tensor:
    # Squares of float16 overflow at 256.
    wide = vectors.float() if vectors.dtype == torch.float16 else vectors
    n = length(wide, keepdim=True)
    short = n < MIN_LENGTH
    return torch.where(short, 0.0, wide / torch.where(short, 1.0, n)).to(vectors.dtype)


def _trace(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]


def _product(first: Tensor, second: Tensor) -> Tensor:
    a, b, c, d = first.unbind(-1)
    e, f, g, h = second.unbind(-1)
    return torch.stack(
        [
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ],
        -1,
    )
