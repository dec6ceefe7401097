import warnings

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from torchcaps import squash
from torchcaps.routing import KMeansRouting
from torchcaps.votes import SharedVotes

double = torch.float64


def test_hard_euclidean_is_lloyds_algorithm_iteration_by_iteration() -> None:
    data, _ = make_blobs(90, 3, centers=4, cluster_std=3.0, random_state=0)
    centers = data[:4]
    labels = ((data[:, None] - centers) ** 2).sum(-1).argmin(1)
    votes = SharedVotes(torch.tensor(data)[None], torch.eye(3, dtype=double).repeat(4, 1, 1))
    routing = KMeansRouting(metric="euclidean", temperature=0, iterations=6)
    start = torch.tensor(np.eye(4)[labels])[None, None]
    for iteration, routed in enumerate(
        routing.history(votes, torch.ones(1, 90, dtype=double), start), start=1
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = KMeans(4, init=centers, n_init=1, max_iter=iteration, tol=0, algorithm="lloyd").fit(data)
        np.testing.assert_allclose(routed.pose[0, 0].numpy(), theirs.cluster_centers_, atol=1e-9)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_small_temperature_goes_over_into_hard_assignment(metric: str) -> None:
    votes = SharedVotes(torch.randn(2, 12, 4, dtype=double), torch.randn(3, 4, 4, dtype=double))
    activation = torch.rand(2, 12, dtype=double)
    cold, hard = (
        KMeansRouting(metric=metric, temperature=t)(votes, activation, coupling=True) for t in (1e-6, 0)
    )
    torch.testing.assert_close(cold.pose, hard.pose)
    torch.testing.assert_close(cold.coupling, hard.coupling)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_soft_assignment_equals_the_formula(metric: str) -> None:
    u = torch.randn(1, 5, 3, dtype=double)
    weight = torch.randn(2, 3, 3, dtype=double)
    activation = torch.rand(1, 5, dtype=double)
    routed = KMeansRouting(metric=metric, temperature=0.7, iterations=3)(SharedVotes(u, weight), activation)
    vote, a = np.einsum("id,jde->ije", u[0].numpy(), weight.numpy()), activation[0].numpy()
    c = np.full((5, 2), 0.5)
    for iteration in range(3):
        total = np.einsum("i,ij,ijd->jd", a, c, vote)
        mu = total / np.einsum("i,ij->j", a, c)[:, None]
        if iteration == 2:
            break
        if metric == "euclidean":
            d = ((vote - mu) ** 2).sum(-1)
        else:
            d = 1 - (vote * mu).sum(-1) / np.linalg.norm(vote, axis=-1) / np.linalg.norm(mu, axis=-1)
        c = np.exp(-d / 0.7)
        c /= c.sum(1, keepdims=True)
    np.testing.assert_allclose(routed.pose[0, 0].numpy(), mu, atol=1e-5)
    lengths = squash(torch.tensor(total)).norm(dim=-1)
    torch.testing.assert_close(routed.activation[0, 0], lengths, atol=1e-5, rtol=0)


def test_dead_children_do_not_count() -> None:
    u, weight = torch.randn(2, 6, 4), torch.randn(3, 4, 4)
    activation = torch.rand(2, 6)
    activation[:, 4:] = 0
    routing = KMeansRouting(metric="euclidean")
    torch.testing.assert_close(
        routing(SharedVotes(u, weight), activation).pose,
        routing(SharedVotes(u[:, :4], weight), activation[:, :4]).pose,
    )
