"""The clusters view agrees with scikit-learn, and degenerate points cause no errors."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

KINDS = ["full", "diagonal", "spherical", "fixed", "kmeans"]
Fit = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def fit(post: Callable[..., dict[str, Any]]) -> Fit:
    """`fit(points, **options)` returns the iterations."""

    def fit(points: Any, **options: Any) -> list[dict[str, Any]]:
        return post("clusters", points=np.asarray(points).tolist(), **options)["iterations"]

    return fit


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    """Three well separated groups of 50 points."""
    random = np.random.default_rng(0)
    return np.concatenate([random.normal(center, 0.05, (50, 2)) for center in ([0, 0], [1, 0.1], [0.4, 1])])


@pytest.mark.parametrize("kind", KINDS)
def test_separated_groups_are_found(fit: Fit, blobs: np.ndarray, kind: str) -> None:
    last = fit(blobs, clusters=3, kind=kind, iterations=30, sigma=0.1, seed=3)[-1]
    expected = sorted(group.mean(0).tolist() for group in np.split(blobs, 3))
    np.testing.assert_allclose(sorted(last["means"]), expected, atol=0.01)
    np.testing.assert_allclose(last["mass"], 1 / 3, atol=0.01)
    np.testing.assert_allclose(np.sum(last["assignment"], 1), 1, atol=2e-3)


def test_full_covariance_agrees_with_scikit_learn(fit: Fit) -> None:
    random = np.random.default_rng(1)
    stretched = random.normal(size=(120, 2)) @ np.array([[0.3, 0.2], [0.0, 0.05]])
    points = np.concatenate([stretched, stretched @ np.array([[0, 1], [-1, 0]]) + [1.0, 0.5]])
    last = fit(points, clusters=2, kind="full", iterations=50, seed=1)[-1]
    reference = GaussianMixture(2, reg_covar=1e-4, n_init=5, random_state=0, tol=1e-6).fit(points)
    order, expected = np.argsort([mean[0] for mean in last["means"]]), np.argsort(reference.means_[:, 0])
    np.testing.assert_allclose(np.array(last["means"])[order], reference.means_[expected], atol=5e-3)
    np.testing.assert_allclose(
        np.array(last["covariances"])[order], reference.covariances_[expected], atol=5e-3
    )


def test_covariances_have_the_structure_of_their_kind(fit: Fit, blobs: np.ndarray) -> None:
    results = {kind: fit(blobs, clusters=2, kind=kind, sigma=0.3)[-1]["covariances"] for kind in KINDS}
    assert all(matrix[0][1] == matrix[1][0] for kind in KINDS for matrix in results[kind])
    assert all(matrix[0][1] == 0 for kind in KINDS[1:] for matrix in results[kind])
    assert all(matrix[0][0] == matrix[1][1] for kind in KINDS[2:] for matrix in results[kind])
    assert results["fixed"][0] == [[0.09, 0], [0, 0.09]]
    assert results["kmeans"][0] == [[0, 0], [0, 0]]


def test_the_seed_determines_the_result(fit: Fit, blobs: np.ndarray) -> None:
    first, again, other = (fit(blobs, clusters=3, seed=seed, iterations=1) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("kind", [*KINDS, "rows"])
@pytest.mark.parametrize(
    "points",
    [[[0, 0]] * 3, [[0, 0], [1, 1]], [[1000, 1000], [-1000, 1000], [0, 0]], [[0, 0], [1e-9, 0], [2e-9, 0]]],
    ids=["same", "two", "far", "near"],
)
def test_degenerate_points_give_finite_numbers(fit: Fit, points: list, kind: str) -> None:
    for step in fit(points, clusters=8, kind=kind, iterations=10):
        assert (step.pop("log_likelihood") is None) == (kind == "kmeans")
        for values in step.values():
            assert np.isfinite(np.array(values)).all()


@pytest.mark.parametrize("kind", [*KINDS[:4], "rows"])
def test_the_likelihood_never_falls(fit: Fit, blobs: np.ndarray, kind: str) -> None:
    steps = fit(blobs, clusters=2, kind=kind, iterations=20, sigma=0.2)
    values = [step["log_likelihood"] for step in steps]
    assert all(after >= before - 2e-4 for before, after in pairwise(values))


def two_kinds_of_pairs() -> np.ndarray:
    """60 pairs that start in one place, and end in one of two; all points have the same covariance."""
    random = np.random.default_rng(2)
    ends = np.repeat([[0.6, 0.5], [0.6, -0.5]], 30, 0)
    middles = np.stack([np.tile([-0.7, 0.0], (60, 1)), ends], 1)
    noise = random.normal(size=(60, 2, 2)) @ np.array([[0.12, 0.05], [0.0, 0.04]])
    return (middles + noise).reshape(120, 2)


def test_rows_have_two_means_and_one_covariance(fit: Fit) -> None:
    points = two_kinds_of_pairs()
    last = fit(points, clusters=2, kind="rows", iterations=30)[-1]
    groups = np.argmax(last["assignment"], 1).reshape(2, 30, 2)
    assert all(len(np.unique(group)) == 1 for group in groups), "pairs are kept together"
    assert groups[0, 0, 0] != groups[1, 0, 0]
    for group, pairs in zip(groups[:, 0, 0], points.reshape(2, 30, 2, 2), strict=True):
        mean = pairs.mean(0)
        np.testing.assert_allclose(np.reshape(last["means"][group], (2, 2)), mean, atol=2e-3)
        deviations = (pairs - mean).reshape(60, 2)
        np.testing.assert_allclose(
            last["covariances"][group], deviations.T @ deviations / 60 + 1e-4 * np.eye(2), atol=2e-4
        )


def test_rows_do_not_depend_on_the_viewpoint(fit: Fit) -> None:
    points = two_kinds_of_pairs()
    shear = np.array([[1.0, 0.8], [-0.3, 0.7]])
    seen = [
        np.argmax(fit(view, clusters=2, kind="rows", iterations=30)[-1]["assignment"], 1)
        for view in (points, points @ shear.T)
    ]
    assert (seen[0] == seen[1]).all() or (seen[0] == 1 - seen[1]).all()


def test_a_point_without_a_partner_belongs_to_no_cluster(fit: Fit) -> None:
    last = fit([*two_kinds_of_pairs(), [0.0, 0.0]], clusters=2, kind="rows", iterations=5)[-1]
    assert len(last["assignment"]) == 121
    assert last["assignment"][-1] == [0, 0]
