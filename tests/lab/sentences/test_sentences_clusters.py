"""Sentences of Clusters: each holds for 40 of 40 inputs."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from support.lab_digits import COUNT
from torchcaps.lab import schemas
from torchcaps.lab.views import clusters
from torchcaps.routing import EMRouting, KMeansRouting, Routing
from torchcaps.votes import SharedVotes


def test_k_means_assigns_each_point_to_the_nearest_mean() -> None:
    """ "Each point belongs to the nearest mean", in the last iteration; and "Of twelve starts"."""
    assert clusters.STARTS == 12
    random = np.random.default_rng(0)
    for seed in range(COUNT):
        points = random.uniform(-1, 1, (30, 2))
        request = schemas.ClustersRequest(
            points=points.tolist(), clusters=3, kind="kmeans", iterations=30, seed=seed
        )
        last = clusters.fit(request).iterations[-1]
        distance = np.linalg.norm(points[:, None] - np.array(last.means), axis=-1)
        chosen = np.take_along_axis(distance, np.argmax(last.assignment, 1)[:, None], axis=1)[:, 0]
        assert (chosen <= distance.min(1) + 1e-3).all()


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", "fixed"])
def test_an_iteration_of_em_shares_the_votes_and_then_fits_the_ellipses(kind: str) -> None:
    """ "E step: each vote is shared by the density … times …", "M step: each ellipse takes the mean …"."""
    random = np.random.default_rng(0)
    for seed in range(COUNT):
        points = np.concatenate([random.normal(center, 0.2, (20, 2)) for center in ((-0.5, 0), (0.5, 0.3))])
        request = schemas.ClustersRequest(
            points=points.round(3).tolist(), clusters=2, kind=kind, iterations=4, seed=seed
        )  # type: ignore[arg-type]
        steps, votes_of = clusters.fit(request).iterations, torch.tensor(request.points)
        for before, after in pairwise(steps):
            gaussians = torch.distributions.MultivariateNormal(
                torch.tensor(before.means), torch.tensor(before.covariances)
            )
            density = gaussians.log_prob(votes_of[:, None]).exp() * torch.tensor(before.mass)
            shared = torch.tensor(after.assignment)
            torch.testing.assert_close(density / density.sum(1, keepdim=True), shared, atol=0.02, rtol=0)
            middle = shared.T @ votes_of / shared.sum(0)[:, None]
            torch.testing.assert_close(torch.tensor(after.means), middle, atol=0.01, rtol=0)


@torch.no_grad()
def activation(routing: Routing, votes: torch.Tensor) -> float:
    """The activation of one parent that gets these votes `[N, 2]`."""
    return float(routing(SharedVotes(votes[None], torch.eye(2)[None]), torch.ones(1, len(votes))).activation)


def test_votes_that_lie_close_together_raise_the_activation() -> None:
    """ "In EM routing, votes that lie close together raise it …", "k-means routing takes the squashed …"."""
    random = torch.Generator().manual_seed(0)
    em, kmeans = EMRouting(inverse_temperature=0.1, beta_u=0.5), KMeansRouting(metric="euclidean")
    for _ in range(COUNT):
        votes = 0.2 * torch.randn(20, 2, generator=random) + 0.5
        middle = votes.mean(0)
        close, wider, wide = (activation(em, middle + (votes - middle) * factor) for factor in (1, 2, 8))
        assert close > wider > wide
        assert activation(em, torch.cat([votes, votes])) > close
        total = float(votes.sum(0).norm())
        assert activation(kmeans, votes) == pytest.approx(total**2 / (1 + total**2), abs=1e-4)
