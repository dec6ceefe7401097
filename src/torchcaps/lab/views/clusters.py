"""Clusters: fit mixture models to points in the plane, with the routing algorithms of the library.

With the covariance `rows`, two successive points are one pose: a 2×2 matrix whose columns are the points.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps.lab.schemas import ClustersIteration, ClustersRequest, ClustersResponse, to_list
from torchcaps.routing import EMRouting, Routing, RoutingOutput, create_routing
from torchcaps.votes import SharedVotes

# Smallest variance of a cluster: σ = 0.01, which is still visible on a plane of about 3 × 2.
MIN_VARIANCE = 1e-4
# One start in three finds long clusters, so several are tried and the best one is returned.
STARTS = 12


@torch.no_grad()
def fit(request: ClustersRequest) -> ClustersResponse:
    """Fit clusters to points from several starts, and return the best fit."""
    points = to_poses(torch.tensor(request.points, dtype=torch.float64), request.kind)
    routing = choose_routing(request)
    steps = run(routing, points, initial_assignments(points, request))
    best = int(score(routing, points, steps[-1]).argmax())
    unpaired = len(request.points) % 2 if request.kind == "rows" else 0
    return ClustersResponse(
        iterations=[describe(routing, points, select(step, best), unpaired) for step in steps]
    )


def to_poses(points: Tensor, kind: str) -> Tensor:
    """The points `[N, 2]`; for `rows` matrices `[N // 2, 4]` row by row, whose columns are two points.

    >>> to_poses(torch.tensor([[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]), "rows")
    tensor([[1., 3., 2., 4.]])
    """
    if kind != "rows":
        return points
    return points[: len(points) // 2 * 2].unflatten(0, (-1, 2)).mT.flatten(1)


def run(routing: Routing, points: Tensor, starts: Tensor) -> list[RoutingOutput]:
    """Route points or poses `[N, D]` from each start `[S, 1, N, clusters]`, all at once."""
    activation = torch.ones(len(starts), len(points), dtype=points.dtype)
    return routing.history(point_votes(points, starts), activation, start=starts)


def point_votes(points: Tensor, coupling: Tensor) -> SharedVotes:
    """Every point votes for every cluster with its own position, in each row of `coupling`; so do poses."""
    weight = torch.eye(2, dtype=points.dtype).expand(coupling.shape[-1], 2, 2)
    space = "vector" if points.shape[1] == 2 else "matrix"
    return SharedVotes(points.expand(len(coupling), -1, -1), weight, space)


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


def initial_assignments(points: Tensor, request: ClustersRequest) -> Tensor:
    """Assignments `[STARTS, 1, points, clusters]` to centers chosen by k-means++.

    With uniform assignments all clusters would stay identical. Every other start is softer, which suits large
    clusters.
    """
    generator = torch.Generator().manual_seed(request.seed)
    centers = torch.stack([choose_centers(points, request.clusters, generator) for _ in range(STARTS)])
    distance = torch.cdist(points.expand(STARTS, -1, -1), points[centers]).square().unsqueeze(1)
    votes = point_votes(points, distance)
    if request.kind == "kmeans":
        return votes.hard(-distance)
    variance = points.var(0, correction=0).mean() / request.clusters
    softness = torch.ones(STARTS, 1, 1, 1, dtype=points.dtype)
    softness[::2] = 0.1
    return votes.softmax(-distance / (2 * softness * variance.clamp(min=MIN_VARIANCE)))


def choose_centers(points: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Indices of points that are far from each other, at random."""
    centers = torch.randint(len(points), (1,), generator=generator)
    for _ in range(1, clusters):
        distance = torch.cdist(points, points[centers]).square().amin(1)
        # All distances are 0 if there are fewer distinct points than clusters: then any point will do.
        probability = distance if float(distance.sum()) > 0 else torch.ones_like(distance)
        centers = torch.cat([centers, torch.multinomial(probability, 1, generator=generator)])
    return centers


def select(step: RoutingOutput, start: int) -> RoutingOutput:
    """One start of an iteration."""
    assert step.coupling is not None
    one = slice(start, start + 1)
    return RoutingOutput(step.pose[one], step.activation[one], step.logits[one], step.coupling[one])


def score(routing: Routing, points: Tensor, step: RoutingOutput) -> Tensor:
    """How good the fit from each start is, `[S]`: for k-means minus the mean squared distance."""
    if isinstance(routing, EMRouting):
        return log_likelihood(routing, points, step)
    assert step.coupling is not None
    distance = torch.cdist(points.expand(len(step.pose), -1, -1), step.pose[:, 0]).square()
    return -(step.coupling[:, 0] * distance).sum(-1).mean(-1)


def log_likelihood(routing: EMRouting, points: Tensor, step: RoutingOutput) -> Tensor:
    """The mean log density of a point under each mixture, `[S]`; a pose is two points."""
    assert step.coupling is not None
    spread = covariances(routing, points, step)
    mixing = step.coupling[:, 0].mean(1).clamp(min=1e-12).log()
    gaussians = torch.distributions.MultivariateNormal(step.pose[:, 0], spread)
    density = gaussians.log_prob(points[:, None, None]) + mixing  # [N, S, clusters]
    return density.logsumexp(-1).mean(0) / (points.shape[1] // 2)


def describe(routing: Routing, points: Tensor, step: RoutingOutput, unpaired: int = 0) -> ClustersIteration:
    """Means, covariances, fractions of the points and assignments after one iteration from one start.

    Args:
        routing: which was used.
        points: points or poses.
        step: the iteration.
        unpaired: points at the end that belong to no pose, and so to no cluster.
    """
    assert step.coupling is not None
    likelihood = log_likelihood(routing, points, step) if isinstance(routing, EMRouting) else None
    size = points.shape[1] // 2
    assignment = step.coupling[0, 0].repeat_interleave(size, 0)
    alone = assignment.new_zeros(unpaired, assignment.shape[1])
    spread = covariances(routing, points, step)[0]
    return ClustersIteration(
        log_likelihood=None if likelihood is None else round(float(likelihood), 4),
        means=to_list(step.pose[0, 0].unflatten(1, (2, size)).mT.flatten(1)),
        covariances=to_list(spread[:, ::size, ::size], 6),
        mass=to_list(step.coupling[0, 0].mean(0)),
        assignment=to_list(torch.cat([assignment, alone]), 3),
    )


def covariances(routing: Routing, points: Tensor, step: RoutingOutput) -> Tensor:
    """The covariances `[S, clusters, D, D]` that the routing fits; 0 for k-means, which has none."""
    assert step.coupling is not None
    if not isinstance(routing, EMRouting):
        return points.new_zeros(len(step.pose), step.pose.shape[2], 2, 2)
    return routing.covariances(point_votes(points, step.coupling), step.coupling)[:, 0]
