from pathlib import Path

import numpy as np
import pytest

from torchcaps.experiments.clustering import (
    CLAIM,
    FAMILY,
    apart,
    first_points,
    four_clouds,
    largest_gap,
    resting,
    sentence,
    softness,
)
from torchcaps.experiments.clustering.mixtures import Step, nearest, reference, route
from torchcaps.experiments.framework.run import reproduce


@pytest.fixture
def clouds() -> tuple[np.ndarray, np.ndarray]:
    points, _ = four_clouds(seed=3, each=30)
    return points, nearest(points, points[first_points(points, seed=3)])


@pytest.mark.parametrize("member", FAMILY, ids=lambda member: member.title)
def test_routing_follows_scikit_learn(member, clouds) -> None:
    points, start = clouds
    assert largest_gap(points, route(points, start, member.kind, 6, member.sigma), member) < 1e-6


def test_a_gap_is_seen_where_there_is_one(clouds) -> None:
    """Set against k-means, a mixture is far off: the comparison can fail."""
    points, start = clouds
    steps = route(points, start, "spherical", 6)
    theirs = reference(points, steps[0], "kmeans", 6)
    assert max(np.abs(ours.mean - means).max() for ours, means in zip(steps[1:], theirs)) > 0.1


def test_covariances_are_those_of_the_assigned_points(clouds) -> None:
    points, start = clouds
    steps: dict[str, Step] = {
        kind: route(points, start, kind, 1, 0.5)[0] for kind in ("full", "diagonal", "spherical", "fixed")
    }
    for number in range(start.shape[1]):
        own = np.cov(points[start[:, number] == 1].T, bias=True)
        np.testing.assert_allclose(steps["full"].covariance[number], own, atol=1e-5)
        np.testing.assert_allclose(steps["diagonal"].covariance[number], np.diag(np.diag(own)), atol=1e-5)
        same = np.diag(own).mean() * np.eye(2)
        np.testing.assert_allclose(steps["spherical"].covariance[number], same, atol=1e-5)
        np.testing.assert_allclose(steps["fixed"].covariance[number], 0.25 * np.eye(2))


def test_softness_is_one_for_even_shares_and_falls_with_sigma(clouds) -> None:
    points, start = clouds
    assert softness(np.full((5, 4), 0.25)) == pytest.approx(1)
    wide, narrow = (softness(route(points, start, "fixed", 10, sigma)[-1].assignment) for sigma in (3, 0.3))
    assert wide > narrow > 0


@pytest.mark.parametrize(("gap", "same"), [(1e-9, True), (0.3, False)])
def test_what_is_far_apart_is_not_called_the_same(gap: float, same: bool) -> None:
    assert ("EM routing is a Gaussian mixture" in sentence(gap)) is same
    assert ("not the same" in sentence(gap)) is not same


def test_rest_is_where_the_last_move_was(clouds) -> None:
    points, start = clouds
    step = route(points, start, "spherical", 1)[0]
    still, aside = step, step._replace(mean=step.mean + 1)
    assert resting([still, still, still]) == 1
    assert resting([still, aside, aside]) == 2
    assert resting([still, still, aside]) == "none"
    assert apart([still], [aside]) == pytest.approx(np.sqrt(2))


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert [each["holds"] for each in result["verdicts"]] == [True]
    assert result["recipes"]["clouds"]["points"] == 440
    assert result["numbers"]["full covariance.rand"] > result["numbers"]["k-means.rand"]
    for name in ("family", "iterations", "vanishing"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "iterations.gif").is_file()
    assert (tmp_path / "result.json").is_file()
    assert (tmp_path / "report.html").is_file()
