r"""The Gaussian of a cluster, from a full covariance down to one constant σ.

The family goes over into k-means: full → diagonal → spherical → fixed σ → σ → 0. Beside it, `Rows` has the
covariance of the rows of a matrix, which a change of viewpoint mixes. Each member fits itself to weighted
votes, gives the log density of every vote, and the mean code length that the MDL activation
pays per unit of mass, :math:`-\langle\ln p\rangle` up to a constant: :math:`\sum_h \ln\sigma_h` wherever
:math:`\sigma` is fitted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy

import torch
from torch import Tensor

from torchcaps._checks import check_number
from torchcaps.poses import PoseSpace
from torchcaps.votes import weighted_sum

# A distance that float32 can hold: a child infinitely far from all its parents would belong to none.
MAX_SQ_DISTANCE = 1e37


def rounding(mean: Tensor, limits: torch.dtype | None = None) -> Tensor:
    """The variance that rounding alone makes around a mean; a smaller variance cannot be measured.

    It takes the place of ε where it is larger: among votes of 1e15 it keeps the slope of ln σ within float32.
    `limits` is the type that rounds, by default that of the mean.
    """
    return (torch.finfo(limits or mean.dtype).eps * mean.detach()).square()


def deviation(votes: Tensor, mean: Tensor, low: Tensor | None) -> Tensor:
    """Votes minus their mean, whose low part (see `precise_mean`) is taken off last.

    Each difference is rounded to its own size, so nothing is lost where votes nearly agree.
    """
    centered = votes - mean.unsqueeze(2)
    return centered if low is None else centered - low.unsqueeze(2)


class Gaussian(ABC):
    """One kind of covariance.

    Args:
        epsilon: added to every variance, so that a cluster of one vote has a finite density.
    """

    # Whether float32 is too short: a ridge of 1e-10 of the variance is below its last digit.
    precise = False

    def __init__(self, epsilon: float) -> None:
        self.epsilon = check_number("epsilon", epsilon, above=True)
        self.limits: torch.dtype | None = None

    def supports(self, space: PoseSpace) -> bool:
        """Whether votes of this space have such a Gaussian; by default, poses that can be added."""
        return space.linear

    def bind(self, space: PoseSpace) -> Gaussian:
        """The Gaussian for votes of this space."""
        return self

    def limited(self, dtype: torch.dtype) -> Gaussian:
        """The same with the limits of this type (see `rounding`), whatever type computes."""
        gaussian = copy(self)
        gaussian.limits = dtype
        return gaussian

    def rounding(self, mean: Tensor) -> Tensor:
        """`rounding` by the type whose limits count."""
        return rounding(mean, self.limits)

    @abstractmethod
    def fit(self, votes: Tensor, share: Tensor, mean: Tensor, low: Tensor | None = None) -> Tensor:
        """The spread of each cluster.

        Shape: votes `[B, P, I, J, D]`, share `[B, P, I, J]` (adds up to 1 over I), mean and its low part
        `[B, P, J, D]`.
        """

    @abstractmethod
    def log_density(self, votes: Tensor, mean: Tensor, spread: Tensor, low: Tensor | None = None) -> Tensor:
        """Log density of each vote under each cluster, `[B, P, I, J]`."""

    @abstractmethod
    def covariance(self, spread: Tensor, size: int) -> Tensor:
        """The covariance matrices of clusters in `size` dimensions, `[B, P, J, size, size]`."""

    @abstractmethod
    def code_length(self, spread: Tensor, size: int) -> Tensor:
        """What a vote of `size` numbers costs to code, per unit of mass, `[B, P, J]`."""


class Diagonal(Gaussian):
    """A variance per dimension, as in the paper; spread is the variance `[B, P, J, D]`."""

    def fit(self, votes: Tensor, share: Tensor, mean: Tensor, low: Tensor | None = None) -> Tensor:
        """Variance per dimension."""
        square = deviation(votes, mean, low).square()
        return weighted_sum(square, share) + self.rounding(mean).clamp(min=self.epsilon)

    def log_density(self, votes: Tensor, mean: Tensor, spread: Tensor, low: Tensor | None = None) -> Tensor:
        """Log density, dimension by dimension."""
        # Dividing before squaring keeps votes of 1e15 within float32.
        scaled = deviation(votes, mean, low) / spread.sqrt().unsqueeze(2)
        distance = scaled.square().sum(-1).clamp(max=MAX_SQ_DISTANCE)
        size = votes.shape[-1]
        volume = spread.log().expand_as(mean).sum(-1) + size * math.log(2 * math.pi)
        return -0.5 * (distance + volume.unsqueeze(2))

    def covariance(self, spread: Tensor, size: int) -> Tensor:
        """The variances on the diagonal."""
        return torch.diag_embed(spread.expand(*spread.shape[:-1], size))

    def code_length(self, spread: Tensor, size: int) -> Tensor:
        """Sum of log standard deviations."""
        return 0.5 * spread.log().expand(*spread.shape[:-1], size).sum(-1)


class Spherical(Diagonal):
    """One variance per cluster; spread is `[B, P, J, 1]`."""

    def supports(self, space: PoseSpace) -> bool:
        """Every space has distances."""
        return True

    def bind(self, space: PoseSpace) -> Gaussian:
        """By distances, where poses cannot be added."""
        return self if space.linear else SphericalByDistance(self.epsilon, space)

    def fit(self, votes: Tensor, share: Tensor, mean: Tensor, low: Tensor | None = None) -> Tensor:
        """Mean of the variances over dimensions."""
        return super().fit(votes, share, mean, low).mean(-1, keepdim=True)


class Fixed(Gaussian):
    """One constant σ for all clusters; spread is the observed variance `[B, P, J, D]`.

    The code length is the true cross-entropy under σ, :math:`\\ln\\sigma + (s_h^2/\\sigma^2 - 1)/2` per
    dimension, which equals the fitted one where the observed :math:`s_h` is σ.
    """

    def __init__(self, epsilon: float, sigma: float) -> None:
        super().__init__(epsilon)
        self.sigma = check_number("sigma", sigma, above=True)

    def supports(self, space: PoseSpace) -> bool:
        """Every space has distances."""
        return True

    def bind(self, space: PoseSpace) -> Gaussian:
        """By distances, where poses cannot be added."""
        return self if space.linear else FixedByDistance(self.epsilon, self.sigma, space)

    def fit(self, votes: Tensor, share: Tensor, mean: Tensor, low: Tensor | None = None) -> Tensor:
        """Observed variance, which only the code length looks at."""
        return weighted_sum(deviation(votes, mean, low).square(), share)

    def log_density(self, votes: Tensor, mean: Tensor, spread: Tensor, low: Tensor | None = None) -> Tensor:
        """Log density under the constant σ."""
        distance = (deviation(votes, mean, low) / self.sigma).square().sum(-1).clamp(max=MAX_SQ_DISTANCE)
        return -0.5 * distance - votes.shape[-1] * math.log(self.sigma * math.sqrt(2 * math.pi))

    def covariance(self, spread: Tensor, size: int) -> Tensor:
        """The constant σ² on the diagonal."""
        return torch.diag_embed(torch.full_like(spread, self.sigma**2))

    def code_length(self, spread: Tensor, size: int) -> Tensor:
        """Cross-entropy under σ."""
        return ((spread / self.sigma / self.sigma - 1) / 2 + math.log(self.sigma)).sum(-1)


class SphericalByDistance(Gaussian):
    r"""One variance per cluster of poses that cannot be added; spread is `[B, P, J, 1]`.

    With the squared distance :math:`d_i` of a vote from the mean and n = `PoseSpace.intrinsic_dim`, the
    variance is the weighted mean of :math:`d_i / n`, and the log density
    :math:`-(d_i / \sigma^2 + n \ln 2\pi\sigma^2) / 2`: that of a normal distribution in the plane that
    touches the space at the mean. For clusters that are small beside the space it is that of the space too.
    """

    def __init__(self, epsilon: float, space: PoseSpace) -> None:
        super().__init__(epsilon)
        self.space = space

    def fit(self, votes: Tensor, share: Tensor, mean: Tensor, low: Tensor | None = None) -> Tensor:
        """Mean squared distance per dimension."""
        distance = self.space.distance(votes, mean.unsqueeze(2))
        variance = (share * distance).sum(2) / self.space.intrinsic_dim
        return (variance + self.rounding(mean).amax(-1).clamp(min=self.epsilon)).unsqueeze(-1)

    def log_density(self, votes: Tensor, mean: Tensor, spread: Tensor, low: Tensor | None = None) -> Tensor:
        """Log density by distance."""
        scaled = self.space.distance(votes, mean.unsqueeze(2)) / spread.squeeze(-1).unsqueeze(2)
        size = self.space.intrinsic_dim
        volume = size * (spread.squeeze(-1).log() + math.log(2 * math.pi))
        return -0.5 * (scaled.clamp(max=MAX_SQ_DISTANCE) + volume.unsqueeze(2))

    def covariance(self, spread: Tensor, size: int) -> Tensor:
        """The variance on the diagonal, for the `intrinsic_dim` directions of the space."""
        return torch.diag_embed(spread.expand(*spread.shape[:-1], self.space.intrinsic_dim))

    def code_length(self, spread: Tensor, size: int) -> Tensor:
        """Sum of log standard deviations."""
        return 0.5 * self.space.intrinsic_dim * spread.squeeze(-1).log()


class FixedByDistance(SphericalByDistance):
    """One constant σ for all clusters of poses that cannot be added; spread is the observed variance."""

    def __init__(self, epsilon: float, sigma: float, space: PoseSpace) -> None:
        super().__init__(epsilon, space)
        self.sigma = sigma

    def log_density(self, votes: Tensor, mean: Tensor, spread: Tensor, low: Tensor | None = None) -> Tensor:
        """Log density under the constant σ."""
        return super().log_density(votes, mean, torch.full_like(spread, self.sigma**2), low)

    def covariance(self, spread: Tensor, size: int) -> Tensor:
        """The constant σ² on the diagonal."""
        return super().covariance(torch.full_like(spread, self.sigma**2), size)

    def code_length(self, spread: Tensor, size: int) -> Tensor:
        """Cross-entropy under σ, as in `Fixed`."""
        ratio = spread.squeeze(-1) / self.sigma / self.sigma
        return self.space.intrinsic_dim * ((ratio - 1) / 2 + math.log(self.sigma))


class Full(Gaussian):
    """A whole covariance matrix; spread is its Cholesky factor `[B, P, J, D, D]`, in float64."""

    precise = True

    def fit(self, votes: Tensor, share: Tensor, mean: Tensor, low: Tensor | None = None) -> Tensor:
        """Cholesky factor of the covariance."""
        centered = deviation(votes, mean, low).double()
        covariance = torch.einsum("bpij,bpijd,bpije->bpjde", share.double(), centered, centered)
        size = votes.shape[-1]
        # Fewer votes than dimensions leave directions without any variance; a ridge far below what float32
        # can tell, in proportion to the votes' own scale, keeps the factorization possible for any scale.
        scale = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)
        ridge = (self.rounding(mean).amax(-1).clamp(min=self.epsilon) + 1e-10 * scale)[..., None, None]
        return torch.linalg.cholesky_ex(covariance + ridge * torch.eye(size, device=votes.device))[0]

    def log_density(self, votes: Tensor, mean: Tensor, spread: Tensor, low: Tensor | None = None) -> Tensor:
        """Log density by a triangular solve."""
        centered = deviation(votes, mean, low).double().transpose(2, 3).transpose(3, 4)
        whitened = torch.linalg.solve_triangular(spread, centered, upper=False)
        distance = whitened.square().sum(3).clamp(max=MAX_SQ_DISTANCE).transpose(2, 3)
        volume = 2 * self.code_length(spread, votes.shape[-1]).unsqueeze(2).double()
        return (-0.5 * (distance + volume + votes.shape[-1] * math.log(2 * math.pi))).to(votes.dtype)

    def covariance(self, spread: Tensor, size: int) -> Tensor:
        """The product of the Cholesky factor with its transpose."""
        return spread @ spread.mT

    def code_length(self, spread: Tensor, size: int) -> Tensor:
        """Half the log determinant."""
        return spread.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class Rows(Gaussian):
    r"""One covariance of the rows of a matrix, shared by its columns; spread is its Cholesky factor.

    A vote is seen as a matrix of R rows and C columns (`PoseSpace.matrix`). With deviations :math:`X_i` from
    the mean and shares :math:`s_i`,

    .. math::
        \Sigma = \frac{1}{C} \sum_i s_i X_i X_i^\top + \epsilon I, \quad
        \ln p_i = -\tfrac12 \big(\operatorname{tr}(X_i^\top \Sigma^{-1} X_i)
            + C \ln |\Sigma| + R\,C \ln 2\pi\big)

    and the code length is :math:`\frac{C}{2} \ln |\Sigma|`. A change of viewpoint T turns :math:`X_i` into
    :math:`T X_i`, and so :math:`\Sigma` into :math:`T \Sigma T^\top`: every trace stays, and every log
    density falls by the same :math:`C \ln |\det T|`.

    The spread is `[B, P, J, R, R]` in float64.
    """

    precise = True

    def __init__(self, epsilon: float, space: PoseSpace | None = None) -> None:
        super().__init__(epsilon)
        self.space = space

    def supports(self, space: PoseSpace) -> bool:
        """Poses that are matrices."""
        return space.matrix_shape is not None

    def bind(self, space: PoseSpace) -> Gaussian:
        """For matrices of this space."""
        return Rows(self.epsilon, space)

    def fit(self, votes: Tensor, share: Tensor, mean: Tensor, low: Tensor | None = None) -> Tensor:
        """Cholesky factor of the covariance of the rows."""
        rows, columns = self._shape()
        matrix = self._side_by_side(votes, mean, low)
        weight = share.double().transpose(2, 3).repeat_interleave(columns, -1) / columns
        covariance = (matrix * weight.unsqueeze(-2)) @ matrix.mT
        # A ridge as for a full covariance.
        scale = covariance.diagonal(dim1=-2, dim2=-1).mean(-1)
        ridge = (self.rounding(mean).amax(-1).clamp(min=self.epsilon) + 1e-10 * scale)[..., None, None]
        return torch.linalg.cholesky_ex(covariance + ridge * torch.eye(rows, device=votes.device))[0]

    def log_density(self, votes: Tensor, mean: Tensor, spread: Tensor, low: Tensor | None = None) -> Tensor:
        """Log density by the inverse of the Cholesky factor."""
        rows, columns = self._shape()
        identity = torch.eye(rows, dtype=spread.dtype, device=spread.device)
        inverse = torch.linalg.solve_triangular(spread, identity.expand_as(spread), upper=False)
        whitened = inverse @ self._side_by_side(votes, mean, low)
        distance = whitened.square().sum(-2).unflatten(-1, (-1, columns)).sum(-1).transpose(2, 3)
        volume = 2 * self.code_length(spread, votes.shape[-1]).unsqueeze(2)
        volume = volume + rows * columns * math.log(2 * math.pi)
        return (-0.5 * (distance.clamp(max=MAX_SQ_DISTANCE) + volume)).to(votes.dtype)

    def covariance(self, spread: Tensor, size: int) -> Tensor:
        """The covariance matrix of all R·C entries, row by row."""
        columns = torch.eye(self._shape()[1], dtype=spread.dtype, device=spread.device)
        return torch.kron((spread @ spread.mT).contiguous(), columns)

    def code_length(self, spread: Tensor, size: int) -> Tensor:
        """C times half the log determinant."""
        return self._shape()[1] * spread.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _shape(self) -> tuple[int, int]:
        assert self.space is not None
        assert self.space.matrix_shape is not None
        return self.space.matrix_shape

    def _side_by_side(self, votes: Tensor, mean: Tensor, low: Tensor | None) -> Tensor:
        """The deviations of all children side by side in float64, `[B, P, J, R, I·C]`."""
        assert self.space is not None
        matrix = self.space.matrix(deviation(votes, mean, low)).permute(0, 1, 3, 4, 2, 5).flatten(-2)
        return matrix.double()


COVARIANCES = ("full", "diagonal", "spherical", "fixed", "rows")


def create_gaussian(covariance: str, *, epsilon: float, sigma: float) -> Gaussian:
    """The member of the family with that name."""
    if covariance == "fixed":
        return Fixed(epsilon, sigma)
    kinds: dict[str, Callable[[float], Gaussian]] = {
        "full": Full,
        "diagonal": Diagonal,
        "spherical": Spherical,
        "rows": Rows,
    }
    return kinds[covariance](epsilon)
