"""The clusters view is the library's routing: it finds what scikit-learn finds, and never breaks."""

from typing import Any

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture
from starlette.testclient import TestClient

from torchcaps.lab import answers

KINDS = ["full", "diagonal", "spherical", "fixed", "kmeans"]


def fit(client: TestClient, points: Any, **more: Any) -> list[dict[str, Any]]:
    answer = client.post("/api/clusters", json={"points": np.asarray(points).tolist(), **more})
    assert answer.status_code == 200, answer.text
    answers.ClustersAnswer.model_validate(answer.json())
    return answer.json()["iterations"]


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    """Three clouds of 50, well apart."""
    random = np.random.default_rng(0)
    return np.concatenate([random.normal(middle, 0.05, (50, 2)) for middle in ([0, 0], [1, 0.1], [0.4, 1])])


@pytest.mark.parametrize("kind", KINDS)
def test_clouds_are_found(client: TestClient, blobs: np.ndarray, kind: str) -> None:
    last = fit(client, blobs, clusters=3, kind=kind, iterations=30, sigma=0.1, seed=3)[-1]
    wanted = sorted(cloud.mean(0).tolist() for cloud in np.split(blobs, 3))
    np.testing.assert_allclose(sorted(last["means"]), wanted, atol=0.01)
    np.testing.assert_allclose(last["mass"], 1 / 3, atol=0.01)
    np.testing.assert_allclose(np.sum(last["assignment"], 1), 1, atol=2e-3)


def test_a_full_mixture_is_the_one_scikit_learn_fits(client: TestClient) -> None:
    random = np.random.default_rng(1)
    stretched = random.normal(size=(120, 2)) @ np.array([[0.3, 0.2], [0.0, 0.05]])
    points = np.concatenate([stretched, stretched @ np.array([[0, 1], [-1, 0]]) + [1.0, 0.5]])
    last = fit(client, points, clusters=2, kind="full", iterations=50, seed=1)[-1]
    reference = GaussianMixture(2, reg_covar=1e-4, n_init=5, random_state=0, tol=1e-6).fit(points)
    order, theirs = np.argsort([m[0] for m in last["means"]]), np.argsort(reference.means_[:, 0])
    np.testing.assert_allclose(np.array(last["means"])[order], reference.means_[theirs], atol=5e-3)
    np.testing.assert_allclose(
        np.array(last["covariances"])[order], reference.covariances_[theirs], atol=5e-3
    )


def test_covariances_have_the_shape_of_their_kind(client: TestClient, blobs: np.ndarray) -> None:
    said = {kind: fit(client, blobs, clusters=2, kind=kind, sigma=0.3)[-1]["covariances"] for kind in KINDS}
    assert all(matrix[0][1] == matrix[1][0] for kind in KINDS for matrix in said[kind])
    assert all(matrix[0][1] == 0 for kind in KINDS[1:] for matrix in said[kind])
    assert all(matrix[0][0] == matrix[1][1] for kind in KINDS[2:] for matrix in said[kind])
    assert said["fixed"][0] == [[0.09, 0], [0, 0.09]]
    assert said["kmeans"][0] == [[0, 0], [0, 0]]


def test_a_seed_decides(client: TestClient, blobs: np.ndarray) -> None:
    first, again, other = (fit(client, blobs, clusters=3, seed=seed, iterations=1) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "points",
    [[[0, 0]] * 3, [[0, 0], [1, 1]], [[1000, 1000], [-1000, 1000], [0, 0]], [[0, 0], [1e-9, 0], [2e-9, 0]]],
    ids=["same", "two", "far", "near"],
)
def test_odd_points_break_nothing(client: TestClient, points: list, kind: str) -> None:
    for step in fit(client, points, clusters=8, kind=kind, iterations=10):
        for values in step.values():
            assert np.isfinite(np.array(values)).all()
