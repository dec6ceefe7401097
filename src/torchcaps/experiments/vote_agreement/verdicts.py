"""Verdicts for the votes of a network with routing and one without, computed from the numbers alone."""

from __future__ import annotations

from typing import Any

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.statistics import chance_margin
from torchcaps.experiments.framework.study import Study

ROUTED, UNIFORM = "EM routing", "no routing (1 iteration)"
# A cluster is tighter than another if its mean distance is at most this fraction of the other's.
TIGHTER = 0.75


def add_verdicts(study: Study, results: dict[str, dict[str, Any]], count: int) -> None:
    """Whether routing finds tight clusters, whether it makes them tight, and whether accuracy is better.

    Args:
        study: gets the verdicts.
        results: of `measure_votes`, by network.
        count: test images.
    """
    steps = results[ROUTED]["correct"]["steps"]
    first, last = steps[0], steps[-1]
    ratio = last["own"] / first["own"]
    study.add_verdict(
        ratio <= TIGHTER and last["own"] < last["rival"] and last["share"] > 2 * first["share"],
        "In correctly classified images, the mean distance of the votes for the true class from their mean "
        f"{change_text(ratio)} in {len(steps)} iterations, to {last['own']:.2f} times the mean length of a "
        f"vote; for the strongest other class it is {last['rival']:.2f}. The true class gets "
        f"{percent(last['share'])} of all votes at the end and {percent(first['share'])} with uniform "
        f"coupling. (Criterion: a decrease by at least {100 * (1 - TIGHTER):.0f} %, a smaller distance than "
        "the other class, and more than twice the share of uniform coupling.)",
    )
    if results[ROUTED]["wrong"]["count"]:
        wrong = results[ROUTED]["wrong"]["steps"][-1]
        study.add_text(
            f"In wrongly classified images ({results[ROUTED]['wrong']['count']}), the true class gets "
            f"{percent(wrong['share'])} of the votes at the end. Their mean distance is {wrong['own']:.2f}, "
            f"and that of the strongest other class {wrong['rival']:.2f}."
        )
    unrouted = results[UNIFORM]["correct"]["steps"][-1]
    study.add_verdict(
        last["own"] <= TIGHTER * unrouted["own"],
        "Trained with one iteration, which means uniform coupling, the network has a mean distance of "
        f"{unrouted['own']:.2f} for the true class (other class {unrouted['rival']:.2f}), from its trained "
        f"weights alone. With routing the distance is {last['own']:.2f}: "
        f"{tighter_text(last['own'], unrouted['own'])}.",
        question="Does routing make the clusters tight?",
    )
    routed, uniform = results[ROUTED]["accuracy"], results[UNIFORM]["accuracy"]
    margin = chance_margin(routed, uniform, count)
    study.add_verdict(
        None if abs(routed - uniform) <= margin else routed > uniform,
        f"With routing {percent(routed)} of the test images are classified correctly, without routing "
        f"{percent(uniform)}: {accuracy_text(routed, uniform, margin)}.",
        question="Is accuracy better with routing?",
    )


def change_text(ratio: float) -> str:
    """How much a distance changed, from the ratio of its final to its initial value.

    >>> change_text(0.6), change_text(1.1)
    ('decreases by 40.0 %', 'increases by 10.0 %')
    """
    if ratio < 1:
        return f"decreases by {percent(100 * (1 - ratio))}"
    return f"increases by {percent(100 * (ratio - 1))}"


def tighter_text(routed: float, uniform: float) -> str:
    """Which network has the tighter clusters, from the mean distances.

    >>> tighter_text(0.3, 0.6), tighter_text(0.6, 0.3), tighter_text(0.5, 0.52)
    ('tighter with routing', 'tighter without routing', 'about equally tight')
    """
    if routed <= TIGHTER * uniform:
        return "tighter with routing"
    return "tighter without routing" if uniform <= TIGHTER * routed else "about equally tight"


def accuracy_text(routed: float, uniform: float, margin: float) -> str:
    """Which network has the higher accuracy.

    >>> accuracy_text(99.0, 95.0, 1.0), accuracy_text(95.0, 99.0, 1.0), accuracy_text(95.0, 95.5, 1.0)
    ('better with routing', 'better without routing', 'the difference is within chance (1.0 points)')
    """
    if abs(routed - uniform) <= margin:
        return f"the difference is within chance ({margin:.1f} points)"
    return "better with routing" if routed > uniform else "better without routing"
