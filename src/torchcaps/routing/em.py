from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps.checks import check_choice, check_flag, check_number
from torchcaps.kernels import em as kernel
from torchcaps.routing.base import Routed, Routing, dead, precise_mean
from torchcaps.routing.gaussian import COVARIANCES, Diagonal, create_gaussian
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
        parents: number of parent types; :math:`\beta_u, \beta_a` are learnt per type.
        iterations: number of M-steps.
        activation: `"mdl"` as above; `"mixing"` takes the share of the field's activation that a parent was
            assigned, the mixing proportion of an ordinary mixture, for both the E-step and the output.
        covariance: `"diagonal"` as in the paper, `"full"`, `"spherical"`, or `"fixed"` at `sigma`.
        inverse_temperature: :math:`\lambda`.
        decay: 0.95 in the schedule of :math:`\lambda_t`; 0 for a constant.
        normalise_mass: count mass in units of the layer's mean (children per parent), so that one
            :math:`\lambda` fits layers of any size.
        beta_u: what :math:`\beta_u` starts from.
        beta_a: what :math:`\beta_a` starts from.
        epsilon: added to every variance.
        sigma: the constant σ of covariance `"fixed"`.

    Example:
        >>> from torchcaps.votes import DenseVotes
        >>> votes = DenseVotes(torch.randn(2, 6, 16), torch.randn(6, 3, 4, 4), matrix=True)
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
        normalise_mass: bool = False,
        beta_u: float = 0.0,
        beta_a: float = 0.0,
        epsilon: float = 1e-6,
        sigma: float = 1.0,
    ) -> None:
        super().__init__(parents, iterations=iterations)
        self.activation = check_choice("activation", activation, ("mdl", "mixing"))
        self.covariance = check_choice("covariance", covariance, COVARIANCES)
        self.gaussian = create_gaussian(covariance, epsilon=epsilon, sigma=sigma)
        self.inverse_temperature = check_number("inverse_temperature", inverse_temperature, above=True)
        self.decay = check_number("decay", decay)
        if decay >= 1:
            raise ValueError(f"decay must be below 1, got {decay}")
        self.normalise_mass = check_flag("normalise_mass", normalise_mass)
        if activation == "mdl":
            self.beta_u = nn.Parameter(torch.full((parents,), check_number("beta_u", beta_u, None)))
            self.beta_a = nn.Parameter(torch.full((parents,), check_number("beta_a", beta_a, None)))

    def inverse_temperature_at(self, iteration: int) -> float:
        r""":math:`\lambda_t` at iteration t, counted from 0."""
        return self.inverse_temperature * (1 - self.decay ** (iteration + 1))

    def iterate(self, votes: Votes, activation: Tensor, start: Tensor | None = None) -> Iterator[Routed]:
        """Yield the mixture after each M-step."""
        child = votes.gather(activation).unsqueeze(-1)
        assignment = votes.initial() if start is None else start
        for iteration in range(self.iterations):
            # Not renormalised over parents: that would cancel the child's activation (pitfall 8).
            mean, low, mass, share = votes.over(precise_mean, assignment * child)
            spread = votes.over(self.gaussian.fit, share, mean, low)
            if self.activation == "mdl":
                code = self.gaussian.code_length(spread, votes.pose_size).to(mass.dtype)
                logit = self._coding_logit(iteration, code, mass, votes)
                presence, log_prior = torch.sigmoid(logit), F.logsigmoid(logit)
            else:
                presence = mass / child.sum(2).clamp(min=dead(mass.dtype))
                logit = log_prior = presence.clamp(min=dead(mass.dtype)).log()
            yield Routed(mean, presence, assignment, logit)
            if iteration < self.iterations - 1:
                log_density = votes.over(self.gaussian.log_density, mean, spread, low)
                assignment = votes.normalise(log_density + log_prior.unsqueeze(2))
                # The sum over the parents of a child is 1, so this adds 0. It is for the gradients: their
                # mean over the parents, which the backward pass of a softmax subtracts, is subtracted here
                # first, so that the second mean is near 0 and its rounding does no harm.
                assignment = assignment + assignment.detach() * (1 - votes._total(assignment))

    def fused(self, votes: Votes, activation: Tensor) -> Routed | None:
        """See `Routing.fused`; the kernel has the paper's covariance, and knows nothing of subclasses."""
        if type(self) is not EMRouting or type(self.gaussian) is not Diagonal:
            return None
        found = kernel.route(
            votes,
            activation,
            (self.beta_u, self.beta_a) if self.activation == "mdl" else None,
            temperatures=[self.inverse_temperature_at(iteration) for iteration in range(self.iterations)],
            normalise_mass=self.normalise_mass,
            epsilon=self.gaussian.epsilon,
        )
        return None if found is None else Routed(found[0], found[1], None, found[2])

    def _coding_logit(self, iteration: int, code: Tensor, mass: Tensor, votes: Votes) -> Tensor:
        if self.normalise_mass:
            mass = mass * (votes.positions * votes.parents / votes.total_children)
        cost = (votes.pose_size * self.beta_u + code) * mass
        return self.inverse_temperature_at(iteration) * (self.beta_a - cost)
