from pathlib import Path

import numpy as np
import pytest
import torch

from torchcaps.experiments.clustering import (
    CLAIM,
    choose_centers,
    generate_points,
    largest_difference,
    verdict_sentence,
)
from torchcaps.experiments.clustering.figures import final_distance, settled_iteration
from torchcaps.experiments.clustering.mixtures import (
    METHODS,
    Clustering,
    assign_to_nearest,
    route_points,
    sklearn_means,
)
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.statistics import normalized_entropy


@pytest.fixture
def example() -> tuple[np.ndarray, np.ndarray]:
    """Points and an initial assignment."""
    points, _ = generate_points(seed=3, count=30)
    return points, assign_to_nearest(points, points[choose_centers(points, seed=3)])


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.title)
def test_routing_equals_scikit_learn(method, example) -> None:
    points, start = example
    steps = route_points(points, start, method.kind, 6, method.sigma)
    assert largest_difference(points, steps, method) < 1e-6


def test_mixture_differs_from_kmeans(example) -> None:
    """The comparison can fail: a mixture and k-means have different means."""
    points, start = example
    steps = route_points(points, start, "spherical", 6)
    reference = sklearn_means(points, steps[0], "kmeans", 6)
    assert max(np.abs(ours.mean - means).max() for ours, means in zip(steps[1:], reference)) > 0.1


def test_covariances_are_those_of_the_assigned_points(example) -> None:
    points, start = example
    steps: dict[str, Clustering] = {
        kind: route_points(points, start, kind, 1, 0.5)[0]
        for kind in ("full", "diagonal", "spherical", "fixed")
    }
    for number in range(start.shape[1]):
        expected = np.cov(points[start[:, number] == 1].T, bias=True)
        np.testing.assert_allclose(steps["full"].covariance[number], expected, atol=1e-5)
        diagonal = np.diag(np.diag(expected))
        np.testing.assert_allclose(steps["diagonal"].covariance[number], diagonal, atol=1e-5)
        spherical = np.diag(expected).mean() * np.eye(2)
        np.testing.assert_allclose(steps["spherical"].covariance[number], spherical, atol=1e-5)
        np.testing.assert_allclose(steps["fixed"].covariance[number], 0.25 * np.eye(2))


def test_entropy_decreases_with_sigma(example) -> None:
    points, start = example
    large, small = (
        normalized_entropy(torch.from_numpy(route_points(points, start, "fixed", 10, sigma)[-1].assignment))
        for sigma in (3, 0.3)
    )
    assert large > small > 0


@pytest.mark.parametrize(("difference", "equal"), [(1e-9, True), (0.3, False)])
def test_sentence_depends_on_the_difference(difference: float, equal: bool) -> None:
    assert ("EM routing is a Gaussian mixture" in verdict_sentence(difference)) is equal
    assert ("not equal" in verdict_sentence(difference)) is not equal


def test_settled_iteration_is_the_last_with_a_move(example) -> None:
    points, start = example
    first = route_points(points, start, "spherical", 1)[0]
    moved = first._replace(mean=first.mean + 1)
    assert settled_iteration([first, first, first]) == 1
    assert settled_iteration([first, moved, moved]) == 2
    assert settled_iteration([first, first, moved]) == "none"
    assert final_distance([first], [moved]) == pytest.approx(np.sqrt(2))


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert [each["holds"] for each in result["verdicts"]] == [True]
    assert result["recipes"]["points"]["points"] == 440
    assert result["numbers"]["full covariance.rand"] > result["numbers"]["k-means.rand"]
    for name in ("methods", "iterations", "limit"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "iterations.gif").is_file()
    assert (tmp_path / "result.json").is_file()
    assert (tmp_path / "report.html").is_file()
