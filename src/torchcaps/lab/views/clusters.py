"""Clusters: fit mixture models to points in the plane, with the routing algorithms of the library."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps.lab.schemas import ClustersIteration, ClustersRequest, ClustersResponse, to_list
from torchcaps.routing import EMRouting, Routing, RoutingOutput, create_routing
from torchcaps.votes import SharedVotes

# Smallest variance of a cluster: σ = 0.01, which is still visible on a plane of about 3 × 2.
MIN_VARIANCE = 1e-4


@torch.no_grad()
def fit(request: ClustersRequest) -> ClustersResponse:
    """Fit clusters to points; every point votes for every cluster with its own position."""
    points = torch.tensor(request.points, dtype=torch.float64)
    weight = torch.eye(2, dtype=points.dtype).expand(request.clusters, 2, 2)
    votes = SharedVotes(points[None], weight)
    routing = choose_routing(request)
    activation = torch.ones(1, len(points), dtype=points.dtype)
    steps = routing.history(votes, activation, start=initial_assignment(votes, request))
    return ClustersResponse(iterations=[describe(routing, votes, step) for step in steps])


def choose_routing(request: ClustersRequest) -> Routing:
    """The routing algorithm that fits this kind of cluster."""
    if request.kind == "kmeans":
        return create_routing("kmeans", iterations=request.iterations, metric="euclidean", temperature=0)
    return create_routing(
        "em",
        iterations=request.iterations,
        activation="mixing",
        covariance=request.kind,
        sigma=request.sigma,
        epsilon=MIN_VARIANCE,
    )


def initial_assignment(votes: SharedVotes, request: ClustersRequest) -> Tensor:
    """Soft assignments `[1, 1, points, clusters]` to centers chosen by k-means++.

    With uniform assignments all clusters would stay identical.
    """
    points = votes.pose[0]
    generator = torch.Generator().manual_seed(request.seed)
    centers = torch.randint(len(points), (1,), generator=generator)
    for _ in range(1, request.clusters):
        distance = torch.cdist(points, points[centers]).square().amin(1)
        # All distances are 0 if there are fewer distinct points than clusters: then any point will do.
        probability = distance if float(distance.sum()) > 0 else torch.ones_like(distance)
        centers = torch.cat([centers, torch.multinomial(probability, 1, generator=generator)])
    distance = torch.cdist(points, points[centers]).square()
    if request.kind == "kmeans":
        return votes.hard(-distance[None, None])
    variance = points.var(0, correction=0).mean() / request.clusters
    return votes.softmax(-distance[None, None] / (2 * variance.clamp(min=MIN_VARIANCE)))


def describe(routing: Routing, votes: SharedVotes, step: RoutingOutput) -> ClustersIteration:
    """Means, covariances, fractions of the points and assignments after one iteration."""
    assert step.coupling is not None
    return ClustersIteration(
        means=to_list(step.pose[0, 0]),
        covariances=to_list(covariances(routing, votes, step), 6),
        mass=to_list(step.coupling[0, 0].mean(0)),
        assignment=to_list(step.coupling[0, 0], 3),
    )


def covariances(routing: Routing, votes: SharedVotes, step: RoutingOutput) -> Tensor:
    """The covariances `[clusters, 2, 2]` that the routing fits; 0 for k-means, which has none."""
    assert step.coupling is not None
    if not isinstance(routing, EMRouting):
        return votes.pose.new_zeros(votes.parents, 2, 2)
    return routing.covariances(votes, step.coupling)[0, 0]
