"""What the votes of a network with routing and of one without say: verdicts from numbers alone."""

from __future__ import annotations

from typing import Any

from torchcaps.experiments.framework.statistics import chance_margin
from torchcaps.experiments.framework.study import Study

ROUTED, UNIFORM = "EM routing", "uniform (1 iteration)"
# A cluster counts as tighter than another if its distances are at most so much of the other's.
TOGETHER = 0.75


def judge(study: Study, found: dict[str, dict[str, Any]], count: int) -> None:
    """What came out of `count` test images."""
    steps = found[ROUTED]["right"]["steps"]
    first, last = steps[0], steps[-1]
    drawn = last["own"] / first["own"]
    study.add_verdict(
        drawn <= TOGETHER and last["own"] < last["rival"] and last["share"] > 2 * first["share"],
        f"Where the network is right, the true class's votes {moved(drawn)} over {len(steps)} iterations, "
        f"to {last['own']:.2f} of their mean length against {last['rival']:.2f} for the strongest rival, and "
        f"the class is given {last['share']:.0f} % of all votes where even shares would be "
        f"{first['share']:.0f} %. (The mark set beforehand: together by {100 * (1 - TOGETHER):.0f} % at "
        "least, tighter than the rival's, and twice the even share.)",
    )
    if found[ROUTED]["wrong"]["count"]:
        lost = found[ROUTED]["wrong"]["steps"][-1]
        study.add_text(
            f"Where it is wrong ({found[ROUTED]['wrong']['count']} images), the true class ends with "
            f"{lost['share']:.0f} % of the votes, {lost['own']:.2f} from their mean, and the strongest "
            f"rival's lie at {lost['rival']:.2f}."
        )
    alone = found[UNIFORM]["right"]["steps"][-1]
    study.add_verdict(
        last["own"] <= TOGETHER * alone["own"],
        "Trained with one iteration, which shares every vote evenly, the same network brings the votes for "
        f"the true class within {alone['own']:.2f} of their mean by its weights alone (rival "
        f"{alone['rival']:.2f}); with routing they lie within {last['own']:.2f}: "
        f"{tighter(last['own'], alone['own'])}.",
        question="Is it routing that makes them tight?",
    )
    routed, uniform = found[ROUTED]["accuracy"], found[UNIFORM]["accuracy"]
    by_chance = chance_margin(routed, uniform, count)
    study.add_verdict(
        None if abs(routed - uniform) <= by_chance else routed > uniform,
        f"With routing {routed:.1f} % of the test images are right, with one iteration {uniform:.1f} %: "
        f"{who(routed, uniform, by_chance)}.",
        question="Is it more often right with routing?",
    )


def moved(drawn: float) -> str:
    """How votes moved whose distance to their mean is so much of what it was.

    >>> moved(0.6), moved(1.1)
    ('draw together by 40 %', 'move apart by 10 %')
    """
    return (
        f"draw together by {100 * (1 - drawn):.0f} %"
        if drawn < 1
        else f"move apart by {100 * (drawn - 1):.0f} %"
    )


def tighter(routed: float, uniform: float) -> str:
    """Whose votes lie closer, by distances to their means.

    >>> tighter(0.3, 0.6), tighter(0.6, 0.3), tighter(0.5, 0.52)
    ('tighter with routing', 'tighter without', 'about as tight')
    """
    if routed <= TOGETHER * uniform:
        return "tighter with routing"
    return "tighter without" if uniform <= TOGETHER * routed else "about as tight"


def who(routed: float, uniform: float, by_chance: float) -> str:
    """Who is more often right.

    >>> who(99.0, 95.0, 1.0), who(95.0, 99.0, 1.0), who(95.0, 95.5, 1.0)
    ('routing is better', 'one iteration is better', 'no more apart than chance (1.0)')
    """
    if abs(routed - uniform) <= by_chance:
        return f"no more apart than chance ({by_chance:.1f})"
    return "routing is better" if routed > uniform else "one iteration is better"
