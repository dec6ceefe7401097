from __future__ import annotations

from math import isqrt
from typing import ClassVar

import torch
from torch import Tensor

from torchcaps._compiling import compiling, realize
from torchcaps.poses.base import PoseSpace


class MatrixPose(PoseSpace):
    r"""A pose is a P×P matrix, and its vote the product with another: :math:`V = M W` (Hinton et al. 2018).

    A change of viewpoint multiplies every pose, and so every vote, from the left: the learned part–whole
    relations W stay as they are.

    Args:
        in_dim: P·P.
        out_dim: P·P.

    Example:
        >>> space = MatrixPose(16, 16)
        >>> space.compose(torch.ones(2, 6, 16), space.initial_weight(6, 3)).shape
        torch.Size([2, 6, 3, 16])
    """

    default_dim: ClassVar[int] = 16
    recompute: ClassVar[bool] = True
    viewpoints: ClassVar[tuple[str, ...]] = ("rotation", "unit_determinant", "invertible")

    def __init__(self, in_dim: int = 16, out_dim: int = 16) -> None:
        super().__init__(in_dim, out_dim)
        self.side = isqrt(in_dim)
        if self.side**2 != in_dim or in_dim != out_dim:
            raise ValueError(
                f"matrix poses need in_dim = out_dim = P·P, got in_dim={in_dim}, out_dim={out_dim}"
            )

    @classmethod
    def of_weight(cls, in_dim: int, weight: Tensor) -> PoseSpace:
        """See `PoseSpace.of_weight`."""
        rows, columns = weight.shape[-2:]
        if rows != columns:
            raise ValueError(f"weight of matrix poses must end in [P, P], got {list(weight.shape)}")
        return cls(rows * columns, rows * columns)

    @property
    def weight_shape(self) -> tuple[int, int]:
        """`[P, P]`."""
        return self.side, self.side

    def initial_weight(self, *pairs: int) -> Tensor:
        """Near the identity, so that a vote starts near the child's own pose."""
        return torch.eye(self.side) + 0.1 * torch.randn(*pairs, *self.weight_shape)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        """Matrix product of pose and weight."""
        pose = pose.unflatten(-1, self.weight_shape)
        if not compiling():
            return torch.einsum("...ipq,ijqr->...ijpr", pose, weight).flatten(-2)
        # As multiply-adds, which a compiler fuses into the sum over votes; see torchcaps._compiling.
        weight = realize(weight.permute(0, 2, 3, 1))  # [I, q, r, J]
        terms = [pose[..., q, None, None] * weight[:, None, q] for q in range(self.side)]  # [..., I, p, r, J]
        return sum(terms[1:], terms[0]).flatten(-3, -2).transpose(-1, -2)

    def compose_sum(self, pose: Tensor, weight: Tensor) -> Tensor:
        """Matrix product over children and the columns of their poses."""
        pose = pose.unflatten(-1, self.weight_shape)
        return torch.einsum("...ipq,ijqr->...jpr", pose, weight).flatten(-2)

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """`(P, P)`."""
        return self.side, self.side

    def matrix(self, values: Tensor) -> Tensor:
        """The pose itself, `[..., P, P]`."""
        return values.unflatten(-1, self.matrix_shape)

    def random_transform(self, kind: str | None = None) -> Tensor:
        """A matrix `[P, P]`: a rotation or reflection, one of determinant ±1, or any invertible one.

        Singular values are between 1/3 and 3, and twice that for the last kind.
        """
        kind = self._check_viewpoint(kind)
        first, second = torch.linalg.qr(torch.randn(2, self.side, self.side, dtype=torch.float64))[0]
        if kind == "rotation":
            return first
        log_scale = 1.4 * (torch.rand(self.side, dtype=torch.float64) - 0.5)
        factor = 2.0 if kind == "invertible" else 1.0
        return factor * first @ (log_scale - log_scale.mean()).exp().diag() @ second

    def move(self, pose: Tensor, transform: Tensor) -> Tensor:
        """Matrix product of transform and pose."""
        return (transform.to(pose) @ self.matrix(pose)).flatten(-2)

    def coordinates(self) -> tuple[int, int] | None:
        """The first two elements of the right-hand column."""
        return (self.side - 1, 2 * self.side - 1) if self.side >= 2 else None
