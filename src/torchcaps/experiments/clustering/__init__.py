from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from torchcaps.experiments.clustering.figures import COLORS, draw_animation, draw_limit, draw_methods
from torchcaps.experiments.clustering.mixtures import (
    ITERATIONS,
    METHODS,
    SMALL_SIGMA,
    Array,
    Clustering,
    Method,
    assign_to_nearest,
    route_points,
    sklearn_means,
)
from torchcaps.experiments.framework.formatting import small_number
from torchcaps.experiments.framework.statistics import normalized_entropy
from torchcaps.experiments.framework.study import Claim, Study

EQUAL = 1e-6  # means that are closer than this count as equal


def run(study: Study) -> None:
    """Cluster the same points from the same start with every routing, and with scikit-learn."""
    from sklearn.metrics import adjusted_rand_score

    points, truth = generate_points(study.seed)
    study.record_settings(
        "points",
        points=len(points),
        clusters=len(COLORS),
        iterations=ITERATIONS,
        methods=[(method.title, method.kind, method.sigma) for method in METHODS],
        seed=study.seed,
    )
    start = assign_to_nearest(points, points[choose_centers(points, study.seed)])
    clusterings = {
        method: route_points(points, start, method.kind, ITERATIONS, method.sigma) for method in METHODS
    }
    rows: list[list[Any]] = [["uniform coupling (no routing)", "–", None, 0.0, 100.0]]
    for method, steps in clusterings.items():
        difference = largest_difference(points, steps, method)
        score = adjusted_rand_score(truth, steps[-1].assignment.argmax(1))
        entropy = 100 * normalized_entropy(torch.from_numpy(steps[-1].assignment))
        rows.append([method.title, method.reference, difference, score, entropy])
        name = "small σ" if method.sigma == SMALL_SIGMA else method.title.split(" =")[0]
        study.add_number(f"{name}.difference", difference)
        study.add_number(f"{name}.rand", score)
    study.add_table(
        "Routing compared with scikit-learn, from the same start",
        ["routing", "scikit-learn", "largest difference of a mean", "adjusted Rand index", "entropy (%)"],
        rows,
        caption=f"Points are votes and clusters are parents: {len(points)} points in an area about 15 wide, "
        f"four clusters, {ITERATIONS} iterations. The difference is the largest distance between one of our "
        "means and the same mean of scikit-learn, over all iterations. The adjusted Rand index is 1 if the "
        "clusters are the groups that the points were generated from, and 0 for a random assignment. The "
        "entropy is that of the assignments: 100 % if every point is divided equally among all clusters, as "
        "without routing.",
        marked=[0],
    )
    draw_methods(study, points, clusterings)
    draw_animation(study, points, clusterings)
    draw_limit(study, points, start, clusterings[METHODS[-1]])


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    """Whether the means are those of scikit-learn."""
    largest = max(value for name, value in numbers.items() if name.endswith(".difference"))
    return largest < EQUAL, verdict_sentence(largest)


def verdict_sentence(largest: float) -> str:
    """What the largest difference to scikit-learn means.

    >>> verdict_sentence(1e-9).endswith("k-means."), verdict_sentence(0.5).endswith("not equal.")
    (True, True)
    """
    text = (
        f"Over {ITERATIONS} iterations, the means of the six routings differ by at most "
        f"{small_number(largest)} from those of scikit-learn"
    )
    if largest < EQUAL:
        return f"{text}. EM routing is a Gaussian mixture, and in the limit σ → 0 it is k-means."
    return f"{text}. The limit is {small_number(EQUAL)}, so they are not equal."


def generate_points(seed: int, count: int = 110) -> tuple[Array, Array]:
    """Points `[4 * count, 2]` and their group: diagonal, horizontal, large and round, small and round."""
    generator = np.random.default_rng(seed)
    diagonal = np.array([[1.75, 0.0], [1.2, 0.38]])
    shapes = (diagonal, np.diag([2.1, 0.34]), np.diag([1.0, 1.0]), np.diag([0.36, 0.36]))
    centers = np.array([[-2.6, 1.6], [1.2, -2.7], [3.0, 2.2], [-3.3, -2.2]])
    groups = [
        center + generator.standard_normal((count, 2)) @ shape.T for center, shape in zip(centers, shapes)
    ]
    return np.concatenate(groups), np.repeat(np.arange(len(groups)), count)


def choose_centers(points: Array, seed: int) -> Array:
    """Indices of four points to start from: a random one, then always the one farthest from the others."""
    chosen = [int(np.random.default_rng(seed + 1).integers(len(points)))]
    for _ in range(1, len(COLORS)):
        distance = np.square(points[:, None] - points[chosen]).sum(-1).min(1)
        chosen.append(int(distance.argmax()))
    return np.array(chosen)


def largest_difference(points: Array, steps: list[Clustering], method: Method) -> float:
    """The largest distance between one of our means and that of scikit-learn, over all iterations."""
    kind = "kmeans" if method.reference == "KMeans" else method.kind
    reference = sklearn_means(points, steps[0], kind, len(steps), method.sigma)
    distances = [np.linalg.norm(ours.mean - means, axis=1).max() for ours, means in zip(steps[1:], reference)]
    return float(max(distances))


CLAIM = Claim(
    name="clustering",
    claim="routing is clustering: EM routing is a Gaussian mixture, and k-means in the limit",
    source="Su Jianlin’s essays on k-means and EM routing (2018–2019); Hinton, Sabour, Frosst 2018",
    data="generated points",
    quick_data="the same generated points",
    minutes=1,
    run=run,
    judge=judge,
    published="the essays derive it and give no numbers",
)
