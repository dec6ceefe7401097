"""Verdicts and a caption for scenes of boats and houses, computed from the numbers alone."""

from __future__ import annotations

from torchcaps.experiments.boats.parsing import (
    DYNAMIC,
    EM,
    INITIAL,
    KINDS,
    KMEANS,
    NEAREST,
    ROUTED,
    UNROUTED,
)
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.statistics import significantly_higher
from torchcaps.experiments.framework.study import Study

MIN_CORRECT = 90  # percent of the parts in each kind of scene
CorrectParts = dict[str, dict[str, float]]
"""Percent of the parts grouped correctly, by method and kind of scene."""
DecoyShares = dict[str, list[float]]
"""Share of the contested parts of ambiguous scenes that the decoy has (0..1), by method and iteration."""


def add_verdicts(study: Study, correct: CorrectParts, decoy: DecoyShares, count: int) -> None:
    """Compare EM with the methods without routing, and the routing methods with each other.

    The margin of chance is that of `count` scenes, not of their parts: if one part of a scene is wrong,
    others usually are too.

    Args:
        study: gets the verdicts.
        correct: percent of the parts grouped correctly.
        decoy: share of the contested parts that the decoy has.
        count: scenes of each kind.
    """
    em, rival = correct[EM], best_unrouted(correct)
    best = correct[rival]["ambiguous"]
    enough = min(em.values()) > MIN_CORRECT
    decided = significantly_higher(em["ambiguous"], best, count)
    study.add_verdict(
        True if enough and decided else None if enough or decided else False,
        f"EM routing groups {percent(em['single'])} of the parts correctly in single scenes, "
        f"{percent(em['crowded'])} in crowded scenes and {percent(em['ambiguous'])} in ambiguous scenes, "
        "where two interpretations agree equally well and only one is true. In ambiguous scenes the best "
        f"method without routing ({rival}) has {percent(best)}; in crowded scenes, pairing the nearest parts "
        f"has {percent(correct[NEAREST]['crowded'])}. (Criterion: more than {MIN_CORRECT} % in each kind of "
        "scene and, in ambiguous scenes, better than every method without routing by more than chance.)",
    )
    hard = KINDS[1:]
    gains = [significantly_higher(em[kind], correct[INITIAL][kind], count) for kind in hard]
    compared = (
        f"in {kind} scenes EM is {comparison(em[kind], correct[INITIAL][kind], count)} "
        f"({percent(em[kind])}, initial couplings {percent(correct[INITIAL][kind])})"
        for kind in hard
    )
    study.add_verdict(
        True if all(gains) else None if any(gains) else False,
        "The initial couplings compare the votes once, without any iteration of routing. Compared with "
        f"them, {' and '.join(compared)}.",
        question="Is routing the reason?",
    )
    better = [name for name in ROUTED if significantly_higher(correct[name]["ambiguous"], best, count)]
    others = [name for name in ROUTED if name not in better]
    study.add_verdict(
        None if better and others else bool(better),
        f"In ambiguous scenes, better than the {percent(best)} without routing: {listed(correct, better)}; "
        f"not better: {listed(correct, others)}. In crowded scenes dynamic routing, which compares by dot "
        f"product, has {percent(correct[DYNAMIC]['crowded'])}. Each part is counted where most of it is "
        "assigned; the wrong interpretation still has "
        f"{percent(100 * decoy[DYNAMIC][-1])} of the contested parts with dynamic routing, and "
        f"{percent(100 * decoy[EM][-1])} with EM.",
        question="Does every routing method resolve ambiguous scenes?",
    )


def listed(correct: CorrectParts, names: list[str]) -> str:
    """The results of some methods in ambiguous scenes.

    >>> listed({"EM": {"ambiguous": 98.7}, "k-means": {"ambiguous": 40.0}}, ["EM", "k-means"]), listed({}, [])
    ('EM 98.7 %, k-means 40.0 %', 'none')
    """
    return ", ".join(f"{name} {percent(correct[name]['ambiguous'])}" for name in names) or "none"


def comparison(first: float, second: float, count: int) -> str:
    """Whether the first of two percentages is better.

    >>> comparison(100.0, 50.0, 100), comparison(50.0, 51.0, 100), comparison(0.0, 50.0, 100)
    ('better', 'as good, within the margin of chance', 'worse')
    """
    if significantly_higher(first, second, count):
        return "better"
    return "worse" if significantly_higher(second, first, count) else "as good, within the margin of chance"


def best_unrouted(correct: CorrectParts) -> str:
    """The best method without routing in ambiguous scenes."""
    return max(UNROUTED, key=lambda name: correct[name]["ambiguous"])


def ambiguous_caption(decoy: DecoyShares) -> str:
    """The caption of the figure of an ambiguous scene."""
    final = {name: 100 * shares[-1] for name, shares in decoy.items()}
    text = (
        "Four parts in a row with two interpretations. In the true one, the outer pairs are two wholes of "
        "the same type (solid lines). In the wrong one, the two inner parts are a whole of the other type, "
        "rotated to its side (dashed lines); their votes agree just as well. A wider line means a larger "
        "coupling. The scene above was chosen by its seed as a clear example; the curves below are means "
        "over all scenes. At the end the wrong interpretation has "
        + ", ".join(f"{percent(share)} ({name})" for name, share in final.items())
        + " of the two inner parts."
    )
    if final[EM] < 10:
        text += (
            " EM takes into account how many votes a whole has. The outer parts fit nowhere else, so their "
            "wholes keep more votes, and EM rejects the wrong interpretation."
        )
    if 40 < final[KMEANS] < 60:
        text += " k-means uses the distance alone and does not decide."
    return text
