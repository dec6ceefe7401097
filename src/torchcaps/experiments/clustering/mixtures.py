"""Points in the plane clustered by the routings, and the same by scikit-learn, iteration by iteration."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from torchcaps.routing import EMRouting, KMeansRouting, Routing, RoutingOutput
from torchcaps.votes import SharedVotes

Array = np.ndarray
EPSILON = 1e-6
# Covariances that scikit-learn has too, and their names there.
SKLEARN_NAMES = {"full": "full", "diagonal": "diag", "spherical": "spherical"}


ITERATIONS = 25
SMALL_SIGMA = 0.01


class Method(NamedTuple):
    """One way to cluster.

    Attributes:
        title: name in the report.
        kind: a covariance of `EMRouting`, or `"kmeans"`.
        sigma: standard deviation of the covariance `"fixed"`.
        reference: what scikit-learn calls it.
    """

    title: str
    kind: str
    sigma: float
    reference: str


# From a Gaussian mixture to k-means.
METHODS = (
    Method("full covariance", "full", 1.0, "GaussianMixture, full"),
    Method("diagonal", "diagonal", 1.0, "GaussianMixture, diag"),
    Method("spherical", "spherical", 1.0, "GaussianMixture, spherical"),
    Method("fixed σ = 0.6", "fixed", 0.6, "GaussianMixture.predict_proba with fixed σ"),
    Method(f"σ → 0 (here {SMALL_SIGMA})", "fixed", SMALL_SIGMA, "KMeans"),
    Method("k-means", "kmeans", 0.0, "KMeans"),
)


class Clustering(NamedTuple):
    """K clusters of N points after one iteration.

    Attributes:
        mean: `[K, 2]`.
        covariance: `[K, 2, 2]`; 0 for k-means.
        weight: `[K]`, share of the points in each cluster.
        assignment: `[N, K]`, the weights of the points in each mean.
    """

    mean: Array
    covariance: Array
    weight: Array
    assignment: Array


def assign_to_nearest(points: Array, centers: Array) -> Array:
    """Assign each point to its nearest center, `[N, K]`.

    >>> assign_to_nearest(np.array([[0.0, 0.0], [3.0, 3.0]]), np.array([[4.0, 4.0], [1.0, 0.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    distance = np.square(points[:, None] - centers).sum(-1)
    return np.eye(len(centers))[distance.argmin(1)]


def route_points(
    points: Array, start: Array, kind: str, iterations: int, sigma: float = 1.0
) -> list[Clustering]:
    """Cluster points by routing: every point is its own vote for every parent.

    Args:
        points: `[N, 2]`.
        start: initial assignment, `[N, K]`.
        kind: a covariance of `EMRouting`, or `"kmeans"`.
        iterations: how often the means are computed.
        sigma: standard deviation of the covariance `"fixed"`.
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
    activation = torch.ones(1, len(points), dtype=torch.float64)
    steps = routing.history(votes, activation, torch.from_numpy(start)[None, None])
    return [as_clustering(routing, votes, step) for step in steps]


def as_clustering(routing: Routing, votes: SharedVotes, output: RoutingOutput) -> Clustering:
    """One iteration of a routing as a clustering."""
    assert output.coupling is not None
    covariance = torch.zeros(votes.parents, 2, 2, dtype=torch.float64)
    if isinstance(routing, EMRouting):
        covariance = routing.covariances(votes, output.coupling)[0, 0]
    assignment = output.coupling[0, 0].numpy()
    return Clustering(output.pose[0, 0].numpy(), covariance.numpy(), assignment.mean(0), assignment)


def sklearn_means(
    points: Array, first: Clustering, kind: str, iterations: int, sigma: float = 1.0
) -> Iterator[Array]:
    """The means `[K, 2]` of scikit-learn after iterations 2, 3, …, started from our first iteration.

    `GaussianMixture` and `KMeans` are used where they have the kind of covariance. They have no fixed σ:
    there scikit-learn computes only the probability of each cluster for each point.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    count = len(first.mean)
    start: dict[str, Any] = {"weights_init": first.weight, "means_init": first.mean}
    if kind == "fixed":
        mixture = GaussianMixture(count, covariance_type="spherical")
        mixture.weights_, mixture.means_ = first.weight, first.mean
        mixture.precisions_cholesky_ = np.full(count, 1 / sigma)
        for _ in range(1, iterations):
            probability = mixture.predict_proba(points)
            mixture.weights_ = probability.mean(0)
            mixture.means_ = (probability / probability.sum(0)).T @ points
            yield mixture.means_
        return
    for iteration in range(1, iterations):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # few iterations are intended
            if kind == "kmeans":
                # It starts from our first means, so our iteration t is its iteration t - 1.
                fitted = KMeans(count, init=first.mean, n_init=1, max_iter=iteration, tol=0).fit(points)
                yield fitted.cluster_centers_
                continue
            mixture = GaussianMixture(
                count,
                covariance_type=SKLEARN_NAMES[kind],
                tol=0,
                reg_covar=EPSILON,
                max_iter=iteration,
                precisions_init=precisions(first.covariance, kind),
                **start,
            )
            yield mixture.fit(points).means_


def precisions(covariance: Array, kind: str) -> Array:
    """Covariances `[K, 2, 2]` as the initial precisions of scikit-learn."""
    if kind == "full":
        return np.linalg.inv(covariance)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    return 1 / (variance if kind == "diagonal" else variance[:, 0])
