"""Points as votes: the family of Gaussian mixtures down to k-means, by the routings themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.lab.schemas import ClustersQuestion
from torchcaps.lab.weights import as_numbers
from torchcaps.routing import EMRouting, Routing, RoutingOutput, create_routing
from torchcaps.routing.base import weighted_mean
from torchcaps.votes import SharedVotes

# The least variance of a cluster: on a field of about 1, a σ of a hundredth, which can still be seen.
LEAST_VARIANCE = 1e-4


@torch.no_grad()
def clusters(asked: ClustersQuestion) -> dict[str, Any]:
    """Fit clusters to points; every point votes for every cluster with itself."""
    points = torch.tensor(asked.points, dtype=torch.float64)
    weight = torch.eye(2, dtype=points.dtype).expand(asked.clusters, 2, 2)
    votes = SharedVotes(points[None], weight)
    routing = create(asked)
    present = torch.ones(1, len(points), dtype=points.dtype)
    steps = routing.history(votes, present, start=first_guess(votes, asked))
    return {"iterations": [describe(routing, votes, step) for step in steps]}


def create(asked: ClustersQuestion) -> Routing:
    """The routing that fits this kind of cluster."""
    if asked.kind == "kmeans":
        return create_routing("kmeans", iterations=asked.iterations, metric="euclidean", temperature=0)
    return create_routing(
        "em",
        iterations=asked.iterations,
        activation="mixing",
        covariance=asked.kind,
        sigma=asked.sigma,
        epsilon=LEAST_VARIANCE,
    )


def first_guess(votes: SharedVotes, asked: ClustersQuestion) -> Tensor:
    """Assignments to begin with, `[1, 1, points, clusters]`: softly, to points that lie apart (k-means++).

    From even shares all clusters would be the same for ever.
    """
    points = votes.pose[0]
    generator = torch.Generator().manual_seed(asked.seed)
    chosen = torch.randint(len(points), (1,), generator=generator)
    for _ in range(1, asked.clusters):
        apart = torch.cdist(points, points[chosen]).square().amin(1)
        # Where every point is taken already, any will do.
        odds = apart if float(apart.sum()) > 0 else torch.ones_like(apart)
        chosen = torch.cat([chosen, torch.multinomial(odds, 1, generator=generator)])
    distance = torch.cdist(points, points[chosen]).square()
    if asked.kind == "kmeans":
        return votes.hard(-distance[None, None])
    reach = points.var(0, correction=0).mean() / asked.clusters
    return votes.softmax(-distance[None, None] / (2 * reach.clamp(min=LEAST_VARIANCE)))


def describe(routing: Routing, votes: SharedVotes, step: RoutingOutput) -> dict[str, Any]:
    """One iteration: means, covariances, the share of points, and whose each point is."""
    assert step.coupling is not None
    return {
        "means": as_numbers(step.pose[0, 0]),
        "covariances": as_numbers(covariances(routing, votes, step), 6),
        "mass": as_numbers(step.coupling[0, 0].mean(0)),
        "assignment": as_numbers(step.coupling[0, 0], 3),
    }


def covariances(routing: Routing, votes: SharedVotes, step: RoutingOutput) -> Tensor:
    """The covariance `[clusters, 2, 2]` that the routing's own Gaussian fits; k-means has none, so 0."""
    assert step.coupling is not None
    square = torch.eye(2, dtype=votes.pose.dtype)
    if not isinstance(routing, EMRouting):
        return 0 * square.expand(votes.parents, 2, 2)
    if routing.covariance == "fixed":
        return routing.gaussian.sigma**2 * square.expand(votes.parents, 2, 2)  # type: ignore[attr-defined]
    vote = votes.tensor()
    mean, _, share = weighted_mean(vote, step.coupling)
    spread = routing.gaussian.fit(vote, share, mean)[0, 0]
    if routing.covariance == "full":
        return spread @ spread.mT  # from its Cholesky factor
    return spread.unsqueeze(-1) * square
