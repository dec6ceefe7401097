"""Clusterings of points in the plane by the routings, and the same ones by scikit-learn, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from torchcaps.routing import EMRouting, KMeansRouting, Routing, RoutingOutput
from torchcaps.routing.base import weighted_mean
from torchcaps.votes import SharedVotes

Array = np.ndarray
EPSILON = 1e-6
# What scikit-learn calls the covariances that it has too.
NAMES = {"full": "full", "diagonal": "diag", "spherical": "spherical"}


class Step(NamedTuple):
    """A clustering after one iteration.

    Attributes:
        mean: `[K, 2]`.
        covariance: `[K, 2, 2]`; 0 for k-means.
        weight: `[K]`, the share of the points that each cluster has.
        assignment: `[N, K]`, what the means were taken over.
    """

    mean: Array
    covariance: Array
    weight: Array
    assignment: Array


def nearest(points: Array, centers: Array) -> Array:
    """Each point wholly to its nearest center, `[N, K]`.

    >>> nearest(np.array([[0.0, 0.0], [3.0, 3.0]]), np.array([[4.0, 4.0], [1.0, 0.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    distance = np.square(points[:, None] - centers).sum(-1)
    return np.eye(len(centers))[distance.argmin(1)]


def route(points: Array, start: Array, kind: str, iterations: int, sigma: float = 1.0) -> list[Step]:
    """Cluster by routing: every point votes for every parent with itself.

    Args:
        points: `[N, 2]`.
        start: assignment to begin with, `[N, K]`.
        kind: a covariance of `EMRouting`, or `"kmeans"`.
        iterations: how many means to compute.
        sigma: of covariance `"fixed"`.
    """
    routing: Routing = (
        KMeansRouting(iterations=iterations, metric="euclidean", temperature=0)
        if kind == "kmeans"
        else EMRouting(
            iterations=iterations, activation="mixing", covariance=kind, sigma=sigma, epsilon=EPSILON
        )
    )
    votes = SharedVotes(
        torch.from_numpy(points)[None], torch.eye(2, dtype=torch.float64).repeat(start.shape[1], 1, 1)
    )
    present = torch.ones(1, len(points), dtype=torch.float64)
    steps = routing.history(votes, present, torch.from_numpy(start)[None, None])
    return [describe(routing, votes, each) for each in steps]


def describe(routing: Routing, votes: SharedVotes, routed: RoutingOutput) -> Step:
    """One iteration of a routing as a clustering."""
    assert routed.coupling is not None
    vote, square = votes.tensor(), torch.eye(2, dtype=torch.float64)
    mean, _, share = weighted_mean(vote, routed.coupling)
    covariance = torch.zeros(votes.parents, 2, 2, dtype=torch.float64)
    if isinstance(routing, EMRouting):
        spread = routing.gaussian.fit(vote, share, mean)[0, 0]
        if routing.covariance == "full":
            covariance = spread @ spread.mT  # from its Cholesky factor
        elif routing.covariance == "fixed":
            covariance = covariance + routing.gaussian.sigma**2 * square  # type: ignore[attr-defined]
        else:
            covariance = spread.unsqueeze(-1) * square
    assignment = routed.coupling[0, 0].numpy()
    return Step(routed.pose[0, 0].numpy(), covariance.numpy(), assignment.mean(0), assignment)


def reference(points: Array, first: Step, kind: str, iterations: int, sigma: float = 1.0) -> Iterator[Array]:
    """The means `[K, 2]` by scikit-learn after iterations 2, 3, …, gone on from our first.

    `GaussianMixture` and `KMeans` fit where they have the kind. A fixed σ they do not have: there
    scikit-learn says how likely each cluster is for each point, and only the mean is taken here.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    count = len(first.mean)
    begin: dict[str, Any] = {"weights_init": first.weight, "means_init": first.mean}
    if kind == "fixed":
        mixture = GaussianMixture(count, covariance_type="spherical")
        mixture.weights_, mixture.means_ = first.weight, first.mean
        mixture.precisions_cholesky_ = np.full(count, 1 / sigma)
        for _ in range(1, iterations):
            likely = mixture.predict_proba(points)
            mixture.weights_ = likely.mean(0)
            mixture.means_ = (likely / likely.sum(0)).T @ points
            yield mixture.means_
        return
    for iteration in range(1, iterations):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is meant to stop early
            if kind == "kmeans":
                # From the first means on, so that iteration t of ours is its iteration t - 1.
                fitted = KMeans(count, init=first.mean, n_init=1, max_iter=iteration, tol=0).fit(points)
                yield fitted.cluster_centers_
                continue
            mixture = GaussianMixture(
                count,
                covariance_type=NAMES[kind],
                tol=0,
                reg_covar=EPSILON,
                max_iter=iteration,
                precisions_init=precisions(first.covariance, kind),
                **begin,
            )
            yield mixture.fit(points).means_


def precisions(covariance: Array, kind: str) -> Array:
    """Covariances `[K, 2, 2]` as the precisions that scikit-learn begins with."""
    if kind == "full":
        return np.linalg.inv(covariance)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    return 1 / (variance if kind == "diagonal" else variance[:, 0])
