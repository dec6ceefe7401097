from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_count


class PoseSpace(ABC):
    """How a pose of `in_dim` numbers becomes a vote of `out_dim` numbers, and how poses compare.

    A new pose space is a subclass with a `weight_shape`, an `initial_weight` and a `compose`; registered
    with `register_pose_space`, every layer takes it by name.

    Args:
        in_dim: numbers in a child's pose, D_in.
        out_dim: numbers in a parent's pose, D_out.
    """

    # The size that layers take if none is given.
    default_dim: ClassVar[int] = 16
    # Whether compiled code computes votes inside each sum instead of storing them: worth it where a vote
    # costs a few multiplications only.
    recompute: ClassVar[bool] = False
    # Whether poses can be added and scaled, as vectors and matrices can, and rotations cannot.
    linear: ClassVar[bool] = True
    # Kinds of change of viewpoint that `random_transform` draws from, each contained in the next.
    viewpoints: ClassVar[tuple[str, ...]] = ()

    def __init__(self, in_dim: int, out_dim: int) -> None:
        self.in_dim = check_count("in_dim", in_dim)
        self.out_dim = check_count("out_dim", out_dim)

    @classmethod
    def of_weight(cls, in_dim: int, weight: Tensor) -> PoseSpace:
        """The space of this kind that a weight was made for, given the size of a child's pose."""
        return cls(in_dim, in_dim)

    @property
    @abstractmethod
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the weight between one child and one parent."""

    @abstractmethod
    def initial_weight(self, *pairs: int) -> Tensor:
        """First values of a weight, `[*pairs, *weight_shape]`."""

    @abstractmethod
    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        """Turn the pose of each child into its vote for each parent.

        Shape: pose `[..., I, D_in]`, weight `[I, J, *weight_shape]` to votes `[..., I, J, D_out]`; a size of
        1 in place of I is repeated.
        """

    def compose_sum(self, pose: Tensor, weight: Tensor) -> Tensor:
        """The sum of the votes of all children for each parent, `compose(pose, weight).sum(-3)`.

        Vectors and matrices compute it as one matrix product, without the votes.

        Shape: pose `[..., I, D_in]`, weight `[I, J, *weight_shape]` to `[..., J, D_out]`.
        """
        return self.compose(pose, weight).sum(-3)

    def mean(self, votes: Tensor, share: Tensor) -> Tensor:
        """Mean over children under shares that add up to 1; a parent without any share gets any pose.

        Shape: votes `[B, P, I, J, D]`, share `[B, P, I, J]` to `[B, P, J, D]`.
        """
        return torch.einsum("bpij,bpijd->bpjd", share, votes)

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared distance between poses, `[..., D]` and `[..., D]` to `[...]`."""
        return (first - second).square().sum(-1)

    @property
    def intrinsic_dim(self) -> int:
        """Numbers that a pose can vary in: 3 for a rotation, though it is stored as 4 numbers."""
        return self.out_dim

    @property
    def matrix_shape(self) -> tuple[int, int] | None:
        """Rows and columns of a pose as a matrix, see `matrix`; `None` if it is none."""
        return None

    def matrix(self, values: Tensor) -> Tensor:
        """Poses, or differences of poses, as matrices whose rows a change of viewpoint mixes.

        A change of viewpoint multiplies the matrix of a difference from the left. The matrix is a linear
        function of `values`.

        Shape: `[..., D]` to `[..., *matrix_shape]`.
        """
        raise ValueError(f"poses of {self!r} cannot be seen as matrices whose rows a viewpoint mixes")

    def random_transform(self, kind: str | None = None) -> Tensor:
        """A random change of viewpoint, in float64.

        Args:
            kind: one of `viewpoints`; by default the last, which contains the others.
        """
        raise ValueError(f"{self!r} does not say how a change of viewpoint moves its poses")

    def move(self, pose: Tensor, transform: Tensor) -> Tensor:
        """Poses as they are seen after a change of viewpoint: `[..., D]` to `[..., D]`.

        Moving a child and then composing it with a weight equals composing it and then moving the vote.
        """
        raise ValueError(f"{self!r} does not say how a change of viewpoint moves its poses")

    def coordinates(self) -> tuple[int, int] | None:
        """Which numbers of a pose take the (row, column) of coordinate addition; `None` if it has none."""
        return None

    def _check_viewpoint(self, kind: str | None) -> str:
        return check_choice("kind", self.viewpoints[-1] if kind is None else kind, self.viewpoints)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_dim}, {self.out_dim})"
