from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_flag, check_number
from torchcaps.kernels import em as diagonal_kernel
from torchcaps.kernels import em_rows as rows_kernel
from torchcaps.poses import PoseSpace
from torchcaps.routing.base import Routing, RoutingOutput, even_gradient, mean_pose, min_mass, precise_mean
from torchcaps.routing.covariance import COVARIANCES, Diagonal, Rows, create_gaussian
from torchcaps.routing.precision import iterate_precisely
from torchcaps.votes import Votes


class EMRouting(Routing):
    r"""EM routing (Hinton, Sabour, Frosst 2018): each parent is a Gaussian fitted to its votes.

    With votes :math:`V_{ij}`, child activations :math:`a_i` and assignments :math:`R_{ij}` that start at
    1 / (number of parents of child i), each iteration t is an M-step,

    .. math::
        r_{ij} = R_{ij} a_i, \quad
        \mu_j = \frac{\sum_i r_{ij} V_{ij}}{\sum_i r_{ij}}, \quad
        \sigma_j^2 = \frac{\sum_i r_{ij} (V_{ij} - \mu_j)^2}{\sum_i r_{ij}}

    .. math::
        \text{cost}_j = \sum_h (\beta_u + \ln \sigma_{jh}) \sum_i r_{ij}, \quad
        a_j = \operatorname{logistic}(\lambda_t (\beta_a - \text{cost}_j)), \quad
        \lambda_t = \lambda (1 - 0.95^{t+1})

    and, but for the last, an E-step over **all** parents of a child, other positions included:
    :math:`R_{ij} \propto a_j\, p_j(V_{ij})`. A parent is active if coding its votes with it is cheaper than
    without.

    Args:
        parents: number of parent types; :math:`\beta_u, \beta_a` are learned per type.
        iterations: number of M-steps.
        activation: `"mdl"` as above. `"mixing"` takes the mixing proportion of an ordinary mixture, both in
            the E-step and as the output: the share of its field's activation that a parent is assigned.
            In a convolutional layer a child is in several fields, so these shares add up to 1 over the
            parents of one field only if no child has parents elsewhere. `"mixing_layer"` divides by the
            activation of the whole layer instead: these shares add up to 1 over all parents.
        covariance: `"diagonal"` as in the paper, `"full"`, `"spherical"`, `"fixed"` at `sigma`, or `"rows"`:
            one covariance of the rows of a matrix pose, shared by its columns. `"rows"` does not depend on
            the viewpoint, see docs/viewpoint.md; `"spherical"` and `"fixed"` can also cluster poses that
            cannot be added.
        inverse_temperature: :math:`\lambda`.
        decay: 0.95 in the schedule of :math:`\lambda_t`; 0 for a constant.
        normalize_mass: count mass in units of the layer's mean (children per parent), so that one
            :math:`\lambda` fits layers of any size.
        share_beta: one :math:`\beta_u` and one :math:`\beta_a` for all parent types of the layer.
        beta_u: what :math:`\beta_u` starts from.
        beta_a: what :math:`\beta_a` starts from.
        epsilon: added to every variance, in the units of squared poses. Covariances that do not depend on the
            viewpoint do so only up to it, so it should be small beside the variances.
        sigma: the constant σ of covariance `"fixed"`.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.randn(2, 6, 16), torch.randn(6, 3, 4, 4), "matrix")
        >>> routed = EMRouting(parents=3)(votes, torch.rand(2, 6))
        >>> routed.pose.shape, routed.activation.shape
        (torch.Size([2, 1, 3, 16]), torch.Size([2, 1, 3]))
    """

    def __init__(
        self,
        parents: int = 1,
        *,
        iterations: int = 3,
        activation: str = "mdl",
        covariance: str = "diagonal",
        inverse_temperature: float = 0.01,
        decay: float = 0.95,
        normalize_mass: bool = False,
        share_beta: bool = False,
        beta_u: float = 0.0,
        beta_a: float = 0.0,
        epsilon: float = 1e-6,
        sigma: float = 1.0,
    ) -> None:
        super().__init__(parents, iterations=iterations)
        self.activation = check_choice("activation", activation, ("mdl", "mixing", "mixing_layer"))
        self.covariance = check_choice("covariance", covariance, COVARIANCES)
        self.gaussian = create_gaussian(covariance, epsilon=epsilon, sigma=sigma)
        self.inverse_temperature = check_number("inverse_temperature", inverse_temperature, above=True)
        self.decay = check_number("decay", decay)
        if decay >= 1:
            raise ValueError(f"decay must be below 1, got {decay}")
        self.normalize_mass = check_flag("normalize_mass", normalize_mass)
        if activation == "mdl":
            count = 1 if check_flag("share_beta", share_beta) else parents
            self.beta_u = nn.Parameter(torch.full((count,), check_number("beta_u", beta_u, None)))
            self.beta_a = nn.Parameter(torch.full((count,), check_number("beta_a", beta_a, None)))
        # A schedule may raise λ over training, from a fraction of its value; tests use λ itself.
        self.inverse_temperature_factor = 1.0

    def inverse_temperature_at(self, iteration: int) -> float:
        r""":math:`\lambda_t` at iteration t, counted from 0."""
        factor = self.inverse_temperature_factor if self.training else 1.0
        return self.inverse_temperature * factor * (1 - self.decay ** (iteration + 1))

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the mixture after each M-step."""
        precise = self.gaussian.precise
        yield from iterate_precisely(self._iterate, votes, activation, start, always=precise)

    def _iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None, limits: torch.dtype
    ) -> Iterator[RoutingOutput]:
        child = votes.gather(activation).unsqueeze(-1)
        assignment = votes.uniform() if start is None else start
        gaussian = self.gaussian.bind(votes.space).limited(limits)
        for iteration in range(self.iterations):
            # Not renormalized over parents: that would cancel the child's activation.
            mean, low, mass, share = self._means(votes, assignment * child, limits)
            spread = votes.reduce(gaussian.fit, share, mean, low)
            if self.activation == "mdl":
                code = gaussian.code_length(spread, votes.pose_dim).to(mass.dtype)
                logits = self._coding_logit(iteration, code, mass, votes)
                presence, log_prior = torch.sigmoid(logits), F.logsigmoid(logits)
            else:
                if self.activation == "mixing":
                    field = child.sum(2, keepdim=True).clamp(min=min_mass(limits))
                    presence = (assignment * even_gradient(child / field, 2)).sum(2)
                else:
                    total = mass.sum((1, 2), keepdim=True)
                    presence = even_gradient(mass / total.clamp(min=min_mass(limits)), (1, 2))
                logits = log_prior = presence.clamp(min=min_mass(limits)).log()
            yield RoutingOutput(mean, presence, logits, assignment)
            if iteration < self.iterations - 1:
                log_density = votes.reduce(gaussian.log_density, mean, spread, low)
                assignment = votes.softmax(log_density + log_prior.unsqueeze(2))
                # As in `even_gradient`, over the parents of a child.
                assignment = assignment + assignment.detach() * (1 - votes._total(assignment))

    @torch.no_grad()
    def covariances(self, votes: Votes, coupling: Tensor) -> Tensor:
        """The covariance matrices of the Gaussians that belong to these couplings.

        Args:
            votes: the votes, all of children with activation 1.
            coupling: `[B, P, I, J]`, as in one iteration of `history`.

        Returns:
            `[B, P, J, D, D]`; for D, covariance `"rows"` has the number of entries of a vote as a matrix, and
            poses that cannot be added have `PoseSpace.intrinsic_dim`.
        """
        gaussian = self.gaussian.bind(votes.space)
        mean, low, _, share = self._means(votes, coupling)
        spread = votes.reduce(gaussian.fit, share, mean, low)
        return gaussian.covariance(spread, votes.pose_dim)

    def supports(self, space: PoseSpace) -> bool:
        """Spherical and fixed covariances support every space, the others poses that can be added."""
        return self.gaussian.supports(space)

    def fused(self, votes: Votes, activation: Tensor) -> RoutingOutput | None:
        """See `Routing.fused`; there are kernels for two covariances, and none for subclasses."""
        kernels = {Diagonal: diagonal_kernel, Rows: rows_kernel}
        kernel = kernels.get(type(self.gaussian))
        if type(self) is not EMRouting or kernel is None or self.activation == "mixing_layer":
            return None
        found = kernel.route(
            votes,
            activation,
            (self.beta_u, self.beta_a) if self.activation == "mdl" else None,
            temperatures=[self.inverse_temperature_at(iteration) for iteration in range(self.iterations)],
            normalize_mass=self.normalize_mass,
            epsilon=self.gaussian.epsilon,
        )
        return None if found is None else RoutingOutput(*found)

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        if isinstance(votes, Votes) and self.covariance == "rows" and not self.supports(votes.space):
            raise ValueError(
                f"covariance 'rows' needs poses that are matrices, such as MatrixPose or SimilarityPose, got "
                f"{votes.space!r}; use another covariance or another pose space"
            )
        super()._check(votes, activation, start)

    @staticmethod
    def _means(
        votes: Votes, weight: Tensor, limits: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if votes.space.linear:
            return votes.reduce(partial(precise_mean, limits=limits), weight)
        mean, mass, share = votes.reduce(partial(mean_pose, votes.space, limits=limits), weight)
        return mean, torch.zeros_like(mean), mass, share

    def _coding_logit(self, iteration: int, code: Tensor, mass: Tensor, votes: Votes) -> Tensor:
        if self.normalize_mass:
            mass = mass * (votes.positions * votes.parents / votes.total_children)
        cost = (votes.space.intrinsic_dim * self.beta_u + code) * mass
        return self.inverse_temperature_at(iteration) * (self.beta_a - cost)
