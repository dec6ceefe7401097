from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice
from torchcaps._compiling import exporting
from torchcaps._widen import widen
from torchcaps.routing.base import Routing, RoutingOutput
from torchcaps.routing.covariance import MAX_SQ_DISTANCE
from torchcaps.votes import Votes, weighted_sum


class VariationalRouting(Routing):
    r"""Variational Bayes routing (Ribeiro, Leontidis, Kollias 2020): EM routing that averages over Gaussians.

    The votes :math:`V_{ij} \in \mathbb{R}^D` are a mixture of Gaussians with unknown proportions
    :math:`\pi`, means :math:`\mu_j` and precisions :math:`\Lambda_j`, under the priors
    :math:`\pi \sim \operatorname{Dirichlet}(1)`,
    :math:`\mu_j \sim \mathcal{N}(0, \Lambda_j^{-1})` and :math:`\Lambda_j \sim \mathcal{W}(I, D + 1)`. They
    keep a parent with few votes from collapsing onto them. With child activations :math:`a_i` and
    assignments :math:`R_{ij}` that start even, each iteration fits the posterior,

    .. math::
        r_{ij} = R_{ij} a_i, \quad R_j = \sum_i r_{ij}, \quad \bar V_j = \frac{1}{R_j} \sum_i r_{ij} V_{ij}

    .. math::
        \alpha_j = \kappa_j = 1 + R_j, \quad \nu_j = D + 1 + R_j, \quad
        m_j = \frac{R_j}{\kappa_j} \bar V_j

    .. math::
        \Psi_j^{-1} = I + \sum_i r_{ij} (V_{ij} - \bar V_j)(V_{ij} - \bar V_j)^\top
            + \frac{R_j}{\kappa_j} \bar V_j \bar V_j^\top

    and, but for the last, assigns each child over **all** its parents, other positions included:
    :math:`R_{ij} \propto \rho_{ij}` with

    .. math::
        \ln \rho_{ij} = E[\ln \pi_j] + \tfrac12 E[\ln |\Lambda_j|]
            - \tfrac12 \Big(\frac{D}{\kappa_j} + \nu_j (V_{ij} - m_j)^\top \Psi_j (V_{ij} - m_j)\Big)

    .. math::
        E[\ln \pi_j] = \psi(\alpha_j) - \psi\Big(\sum_k \alpha_k\Big), \quad
        E[\ln |\Lambda_j|] = \sum_{h=0}^{D-1} \psi\Big(\frac{\nu_j - h}{2}\Big) + D \ln 2 + \ln |\Psi_j|

    where k goes over the parent types at one position. The pose is :math:`m_j`. The activation is high where
    the Gaussian has a small entropy :math:`H_j`:

    .. math::
        H_j = \tfrac{D}{2} \ln(2 \pi e) - \tfrac12 E[\ln |\Lambda_j|], \quad
        a_j = \operatorname{logistic}\big(\beta_{a,j} - (e^{E[\ln \pi_j]} H_j + \beta_{u,j})\big)

    Two differences from the authors' network. Its first assignment is 1 / (number of parent types), without
    the positions; here the shares of a child add up to 1. And it applies batch normalization without scale
    and shift to the poses and to the logits of every layer. Both come after the last iteration, so they are
    no part of the routing, and a network adds them to what its layer returns:
    `Capsules(norm(routed.pose), torch.sigmoid(norm(routed.logits)))`.

    Args:
        parents: number of parent types; :math:`\beta_u, \beta_a` are learned per type and start at 0. Only
            their difference matters.
        iterations: how many times the posterior is computed.
        covariance: `"diagonal"`, the paper's default, which keeps the diagonal of :math:`\Psi^{-1}` only, or
            `"full"`.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.randn(2, 6, 16), torch.randn(6, 3, 4, 4), "matrix")
        >>> routed = VariationalRouting(parents=3)(votes, torch.rand(2, 6))
        >>> routed.pose.shape, routed.activation.shape
        (torch.Size([2, 1, 3, 16]), torch.Size([2, 1, 3]))
    """

    def __init__(self, parents: int = 1, *, iterations: int = 3, covariance: str = "diagonal") -> None:
        super().__init__(parents, iterations=iterations)
        self.covariance = check_choice("covariance", covariance, ("diagonal", "full"))
        self.beta_u = nn.Parameter(torch.zeros(parents))
        self.beta_a = nn.Parameter(torch.zeros(parents))

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the posterior after each update."""
        full, size = self.covariance == "full", votes.pose_dim
        child = votes.gather(activation).unsqueeze(-1)
        assignment = votes.uniform() if start is None else start
        for iteration in range(self.iterations):
            weight = assignment * child
            mass = weight.sum(2)
            # Thanks to the priors nothing is divided by the mass alone, and a parent without votes is no
            # special case.
            mean = votes.reduce(weighted_sum, weight) / (1 + mass).unsqueeze(-1)
            scale = votes.reduce(_full_scale if full else _diagonal_scale, weight, mean)
            log_mixing = _digamma(1 + mass) - _digamma((1 + mass).sum(-1, keepdim=True))
            log_precision = _expected_log_precision(mass, scale, size)
            entropy = size / 2 * math.log(2 * math.pi * math.e) - log_precision / 2
            logits = self.beta_a - (log_mixing.exp() * entropy + self.beta_u)
            yield RoutingOutput(mean, torch.sigmoid(logits), logits, assignment)
            if iteration < self.iterations - 1:
                distance = votes.reduce(_full_distance if full else _diagonal_distance, mass, mean, scale)
                # The constant (D/2) ln 2π is the same for all parents and left out.
                log_weight = log_mixing + log_precision / 2 - size / 2 / (1 + mass)
                assignment = votes.softmax(log_weight.unsqueeze(2) - distance / 2)


def _expected_log_precision(mass: Tensor, scale: Tensor, size: int) -> Tensor:
    """E[ln |Λ|], from the inverse scale or its Cholesky factor; `[B, P, J]`."""
    freedom = (size + 1 + mass).unsqueeze(-1) - torch.arange(size, device=mass.device)
    log_det = scale.log().sum(-1) if scale.ndim == 4 else 2 * scale.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return _digamma(freedom / 2).sum(-1) + size * math.log(2) - log_det.to(mass.dtype)


def _digamma(values: Tensor) -> Tensor:
    """The digamma function of values above 0; ONNX has none, so an export gets its series.

    ψ(x) = ψ(x + 6) − Σ 1/(x + k) for k = 0..5, and the asymptotic series (Abramowitz and Stegun 6.3.18) is
    exact to float32 above 6.
    """
    if not exporting():
        return torch.digamma(values)
    large = values + 6
    square = 1 / (large * large)
    series = square * (1 / 12 - square * (1 / 120 - square / 252))
    below = sum((1 / (values + step) for step in range(6)), torch.zeros_like(values))
    return large.log() - 0.5 / large - series - below


def _diagonal_scale(votes: Tensor, weight: Tensor, mean: Tensor) -> Tensor:
    r"""Diagonal of the inverse scale matrix, `[B, P, J, D]`.

    Around the posterior mean, :math:`\Psi^{-1} = I + \sum_i r_i (V_i - m)(V_i - m)^\top + m m^\top`.
    """
    return 1 + weighted_sum((votes - mean.unsqueeze(2)).square(), weight) + mean.square()


def _diagonal_distance(votes: Tensor, mass: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Squared distance of each vote from the posterior mean, times ν; `[B, P, I, J]`."""
    freedom = (votes.shape[-1] + 1 + mass).unsqueeze(-1)
    # Dividing before squaring keeps votes of 1e15 within float32.
    scaled = (votes - mean.unsqueeze(2)) / (scale / freedom).sqrt().unsqueeze(2)
    return scaled.square().sum(-1).clamp(max=MAX_SQ_DISTANCE)


def _full_scale(votes: Tensor, weight: Tensor, mean: Tensor) -> Tensor:
    """Cholesky factor of the inverse scale matrix, `[B, P, J, D, D]`, in float64."""
    centered = widen(votes - mean.unsqueeze(2), 0.5)
    scatter = torch.einsum("bpij,bpijd,bpije->bpjde", widen(weight, 0.5), centered, centered)
    prior = widen(mean, 0.5)
    scatter = scatter + prior.unsqueeze(-1) * prior.unsqueeze(-2)
    # Beside votes of 1e15 the 1 is lost in rounding, and beside ordinary votes the ridge is.
    ridge = 1 + 1e-10 * scatter.diagonal(dim1=-2, dim2=-1).mean(-1)
    eye = torch.eye(votes.shape[-1], dtype=scatter.dtype, device=votes.device)
    return torch.linalg.cholesky_ex(scatter + ridge[..., None, None] * eye)[0]


def _full_distance(votes: Tensor, mass: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """As `_diagonal_distance`, by a triangular solve."""
    centered = widen(votes - mean.unsqueeze(2), 0.5).permute(0, 1, 3, 4, 2)
    whitened = torch.linalg.solve_triangular(scale, centered, upper=False)
    distance = whitened.square().sum(3).transpose(2, 3) * (votes.shape[-1] + 1 + mass).unsqueeze(2)
    return distance.clamp(max=MAX_SQ_DISTANCE).to(votes.dtype)
