from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from torchcaps.experiments.clustering.mixtures import Array, Step, nearest, reference, route
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    GRAY,
    GREEN,
    ORANGE,
    PINK,
    add_axes,
    new_figure,
)
from torchcaps.experiments.framework.study import Claim, Study

COLORS = (BLUE, ORANGE, GREEN, PINK)
ITERATIONS = 25
WIDE, HIGH = (-7.2, 7.8), (-4.9, 5.1)
SMALL = 0.01
REST = 0.001  # means that move by less in an iteration have settled
EQUAL = 1e-6  # means that lie closer are the same


class Member(NamedTuple):
    """One of the family: what the report calls it, its kind, its σ where that is fixed, and the reference."""

    title: str
    kind: str
    sigma: float
    against: str


FAMILY = (
    Member("full covariance", "full", 1.0, "GaussianMixture, full"),
    Member("diagonal", "diagonal", 1.0, "GaussianMixture, diag"),
    Member("spherical", "spherical", 1.0, "GaussianMixture, spherical"),
    Member("fixed σ = 0.6", "fixed", 0.6, "GaussianMixture.predict_proba at σ"),
    Member(f"σ → 0 (here {SMALL})", "fixed", SMALL, "KMeans"),
    Member("k-means", "kmeans", 0.0, "KMeans"),
)


def run(study: Study) -> None:
    """Cluster the same points from the same means with every member of the family, and with scikit-learn."""
    from sklearn.metrics import adjusted_rand_score

    points, truth = four_clouds(study.seed)
    study.record_settings(
        "clouds",
        points=len(points),
        clusters=len(COLORS),
        iterations=ITERATIONS,
        family=[(member.title, member.kind, member.sigma) for member in FAMILY],
        seed=study.seed,
    )
    start = nearest(points, points[first_points(points, study.seed)])
    found = {each: route(points, start, each.kind, ITERATIONS, each.sigma) for each in FAMILY}
    rows: list[list[Any]] = [["uniform (no routing)", "–", None, 0.0, 100.0]]
    worst = 0.0
    for member, steps in found.items():
        gap = largest_gap(points, steps, member)
        worst = max(worst, gap)
        right = adjusted_rand_score(truth, steps[-1].assignment.argmax(1))
        vague = 100 * softness(steps[-1].assignment)
        rows.append([member.title, member.against, gap, right, vague])
        name = "vanishing σ" if member.sigma == SMALL else member.title.split(" =")[0]
        study.add_number(f"{name}.gap", gap)
        study.add_number(f"{name}.rand", right)
    study.add_table(
        "Routing against scikit-learn, started alike",
        ["routing", "scikit-learn", "largest gap of any mean", "found (adjusted Rand)", "softness (%)"],
        rows,
        caption=f"Points are votes and clusters are parents; {len(points)} points in a field about 15 wide, "
        f"four clusters, {ITERATIONS} iterations. The gap is the largest distance between any of our means "
        "and scikit-learn’s, over all iterations. Adjusted Rand is 1 for the clouds the points come from "
        "and 0 for chance; softness is the entropy of the assignments, 100 % where every cluster "
        "has an equal share of every point, as without routing.",
        marked=[0],
    )
    draw_family(study, points, found)
    draw_animation(study, points, found)
    draw_vanishing(study, points, start, found[FAMILY[-1]])
    study.add_verdict(worst < EQUAL, sentence(worst))


def tiny(value: float) -> str:
    """A small number, kept in one line.

    >>> tiny(5.149e-9) == "5e\N{NON-BREAKING HYPHEN}09"
    True
    """
    return f"{value:.1g}".replace("-", "\N{NON-BREAKING HYPHEN}")


def sentence(worst: float) -> str:
    """What the largest gap to scikit-learn says.

    >>> sentence(1e-9).endswith("is k-means."), sentence(0.5).endswith("not the same.")
    (True, True)
    """
    gap = (
        f"Over {ITERATIONS} iterations means of the six routings lie up to {tiny(worst)} from scikit-learn's"
    )
    if worst < EQUAL:
        return f"{gap}, no further. EM routing is a Gaussian mixture, and with σ going to 0 it is k-means."
    return f"{gap}, further than {tiny(EQUAL)}: they are not the same."


def four_clouds(seed: int, each: int = 110) -> tuple[Array, Array]:
    """Points `[N, 2]` and the cloud each is from: a slanted one, a lying one, a wide and a small one."""
    chance = np.random.default_rng(seed)
    slanted = np.array([[1.75, 0.0], [1.2, 0.38]])
    shapes = (slanted, np.diag([2.1, 0.34]), np.diag([1.0, 1.0]), np.diag([0.36, 0.36]))
    middles = np.array([[-2.6, 1.6], [1.2, -2.7], [3.0, 2.2], [-3.3, -2.2]])
    clouds = [middle + chance.standard_normal((each, 2)) @ shape.T for middle, shape in zip(middles, shapes)]
    return np.concatenate(clouds), np.repeat(np.arange(len(clouds)), each)


def first_points(points: Array, seed: int) -> Array:
    """Which four points to begin at: each next one the farthest from those before, the first by chance."""
    chosen = [int(np.random.default_rng(seed + 1).integers(len(points)))]
    for _ in range(1, len(COLORS)):
        apart = np.square(points[:, None] - points[chosen]).sum(-1).min(1)
        chosen.append(int(apart.argmax()))
    return np.array(chosen)


def largest_gap(points: Array, steps: list[Step], member: Member) -> float:
    """How far any mean ever is from scikit-learn's."""
    kind = "kmeans" if member.against == "KMeans" else member.kind
    theirs = reference(points, steps[0], kind, len(steps), member.sigma)
    gaps = [np.linalg.norm(ours.mean - means, axis=1).max() for ours, means in zip(steps[1:], theirs)]
    return float(max(gaps))


def apart(some: list[Step], others: list[Step]) -> float:
    """How far the means of two routings lie apart in the end."""
    return float(np.linalg.norm(some[-1].mean - others[-1].mean, axis=1).max())


def resting(steps: list[Step]) -> int | str:
    """The iteration after which no mean moves by more than `REST` any more; `"none"` if it still does."""
    moves = [np.linalg.norm(after.mean - before.mean, axis=1).max() for before, after in pairwise(steps)]
    late = [number for number, move in enumerate(moves, start=2) if move > REST]
    return "none" if late and late[-1] == len(steps) else late[-1] if late else 1


def softness(assignment: Array) -> float:
    """Mean entropy of the assignments `[N, K]` as a share of ln K.

    >>> softness(np.array([[0.5, 0.5], [1.0, 0.0]]))
    0.5
    """
    logs = np.log(np.clip(assignment, 1e-300, 1))
    return max(0.0, float(-(assignment * logs).sum(1).mean() / np.log(assignment.shape[1])))


def draw_panel(ax: Any, points: Array, steps: list[Step], title: str) -> None:
    """Points in the colors of their clusters, mixed where they are shared; ellipses at one and two σ."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Ellipse

    last = steps[-1]
    palette = np.array([to_rgb(color) for color in COLORS])
    if np.sqrt(last.covariance.max()) <= SMALL:
        # Where no ellipse can be seen, the regions are the clusters.
        across, up = np.meshgrid(np.linspace(*WIDE, 340), np.linspace(*HIGH, 240))
        nearby = nearest(np.stack([across, up], -1).reshape(-1, 2), last.mean) @ palette
        ax.imshow(
            nearby.reshape(*across.shape, 3), extent=(*WIDE, *HIGH), origin="lower", alpha=0.1, aspect="auto"
        )
    ax.scatter(*points.T, c=np.clip(last.assignment @ palette, 0, 1), s=9, alpha=0.75, linewidths=0)
    for number, color in enumerate(COLORS):
        values, axes = np.linalg.eigh(last.covariance[number])
        slant = float(np.degrees(np.arctan2(axes[1, 1], axes[0, 1])))
        for reach, strength in ((1, 0.22), (2, 0.10)):
            wide, high = 2 * reach * np.sqrt(values[::-1])
            shape: dict[str, Any] = {"angle": slant, "facecolor": color, "alpha": strength, "linewidth": 0}
            ax.add_patch(Ellipse(tuple(last.mean[number]), wide, high, **shape))
            ax.add_patch(
                Ellipse(
                    tuple(last.mean[number]),
                    wide,
                    high,
                    angle=slant,
                    fill=False,
                    edgecolor=color,
                    linewidth=0.9,
                )
            )
        path = np.array([step.mean[number] for step in steps])
        ax.plot(*path.T, color=DARK, linewidth=0.9, alpha=0.6)
        ax.scatter(*path[-1], s=46, color=color, edgecolors="white", linewidths=1.3, zorder=4)
    ax.set(xlim=WIDE, ylim=HIGH, xticks=[], yticks=[], aspect="equal")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set_title(title, loc="center", fontsize=11, color=DARK)


def draw_family(study: Study, points: Array, found: dict[Member, list[Step]]) -> None:
    """All members side by side, at the end."""
    figure = new_figure(9.6, 4.9)
    for ax, (member, steps) in zip(add_axes(figure, 2, 3), found.items()):
        draw_panel(ax, points, steps, member.title)
    study.add_figure(
        "family",
        figure,
        caption="From a Gaussian mixture to k-means, one constraint at a time: the same points, begun at the "
        "same means. Ellipses stand at one and two σ, colors mix where a point is shared, dark lines are "
        "the paths of the means. Only a full covariance can slant. The means of the last two panels end "
        f"{tiny(apart(*list(found.values())[-2:]))} apart.",
    )


def draw_animation(study: Study, points: Array, found: dict[Member, list[Step]]) -> None:
    """The family while it iterates; few frames where little moves."""
    frames = []
    for last in (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, ITERATIONS):
        figure = new_figure(8.4, 4.6)
        for ax, (member, steps) in zip(add_axes(figure, 2, 3), found.items()):
            draw_panel(ax, points, steps[:last], member.title)
        figure.suptitle(f"iteration {last}", x=0.02, ha="left", fontsize=12, color=GRAY)
        frames.append(figure)
    study.add_animation(
        "iterations",
        frames,
        caption="The same, moving: routing iteration by iteration. From what iteration on no mean moves by "
        f"more than {REST}: "
        + ", ".join(f"{resting(steps)} ({member.title})" for member, steps in found.items())
        + ".",
        milliseconds=550,
    )


def draw_vanishing(study: Study, points: Array, start: Array, lloyd: list[Step]) -> None:
    """How a mixture with one fixed σ goes over into k-means."""
    sigmas = np.geomspace(0.03, 3, 25)
    ends = [route(points, start, "fixed", ITERATIONS, float(sigma))[-1] for sigma in sigmas]
    gaps = [apart([end], lloyd) for end in ends]
    vague = [100 * softness(end.assignment) for end in ends]
    figure = new_figure(7.6, 3.4)
    left, right = add_axes(figure, 1, 2)
    left.plot(sigmas, np.maximum(gaps, 1e-16), color=BLUE, marker="o", markersize=3.5)
    left.set(xscale="log", yscale="log", xlabel="σ", title="distance to k-means' means")
    right.plot(sigmas, vague, color=ORANGE, marker="o", markersize=3.5)
    right.set(xscale="log", xlabel="σ", ylabel="%", ylim=(-3, 103), title="softness of the assignments")
    for ax in (left, right):
        ax.invert_xaxis()
    study.add_figure(
        "vanishing",
        figure,
        caption="EM routing with one constant σ for all clusters, σ made smaller to the right. At "
        f"σ = {sigmas[0]:.2g} the means lie {tiny(gaps[0])} from those of Lloyd's k-means (left), at "
        f"σ = {sigmas[-1]:.2g} {tiny(gaps[-1])}; the assignments are soft to {vague[0]:.1f} and "
        f"{vague[-1]:.1f} % (right).",
    )
    study.add_number("vanishing σ.softness (%)", vague[0])


CLAIM = Claim(
    name="clustering",
    claim="routing is clustering: EM routing is a Gaussian mixture that goes over into k-means",
    source="Su Jianlin’s essays on k-means and EM routing (2018–2019); Hinton, Sabour, Frosst 2018",
    data="generated points",
    quick_data="the same generated points",
    minutes=1,
    run=run,
)
