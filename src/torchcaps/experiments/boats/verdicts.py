"""What the scenes of boats and houses say: a caption and verdicts that follow from the numbers alone."""

from __future__ import annotations

from torchcaps.experiments.framework.statistics import significantly_higher
from torchcaps.experiments.framework.study import Study

KINDS = ("single", "crowded", "ambiguous")
EM, MIXING, KMEANS, DYNAMIC, UNIFORM = "EM", "EM, mixing proportions", "k-means", "dynamic", "uniform"
PROPOSED, NEARBY = "agreement, before routing", "nearest in the picture"
ROUTED = (EM, MIXING, KMEANS, DYNAMIC)
WITHOUT = (UNIFORM, PROPOSED, NEARBY)
ENOUGH = 90  # percent of the parts of each kind of scene
Right = dict[str, dict[str, float]]
"""Percent of the parts put with their whole, by routing and kind of scene."""
Contest = dict[str, list[float]]
"""How much of the contested parts of ambiguous scenes the decoy has (0..1), by routing and iteration."""


def judge(study: Study, right: Right, contest: Contest, count: int) -> None:
    """What came out of `count` scenes of each kind.

    Chance is that of so many scenes, not of their parts, of which one is seldom wrong alone.
    """
    em, rival = right[EM], strongest(right)
    others = right[rival]["ambiguous"]
    found, decided = min(em.values()) > ENOUGH, significantly_higher(em["ambiguous"], others, count)
    study.add_verdict(
        True if found and decided else None if found or decided else False,
        f"EM routing puts {em['single']:.0f} % of the parts with their whole in single scenes, "
        f"{em['crowded']:.0f} % in crowded and {em['ambiguous']:.0f} % in ambiguous ones, where two readings "
        f"agree equally well and something must decide. There the best without routing has {others:.0f} % "
        f"({rival}); pairing what is nearest in the picture has {right[NEARBY]['crowded']:.0f} % of the "
        f"crowded parts. (The mark: {ENOUGH} % in each kind, and in ambiguous scenes more than chance above "
        "all that is without routing.)",
    )
    hard = KINDS[1:]
    gains = [significantly_higher(em[kind], right[PROPOSED][kind], count) for kind in hard]
    compared = (
        f"in {kind} scenes EM is {word(em[kind], right[PROPOSED][kind], count)} ({em[kind]:.1f} % against "
        f"{right[PROPOSED][kind]:.1f} %)"
        for kind in hard
    )
    study.add_verdict(
        True if all(gains) else None if any(gains) else False,
        f"Against agreement looked at once, before any iteration, {', '.join(compared)}.",
        question="Is it routing?",
    )
    deciding = [name for name in ROUTED if significantly_higher(right[name]["ambiguous"], others, count)]
    left = [name for name in ROUTED if name not in deciding]
    study.add_verdict(
        None if deciding and left else bool(deciding),
        f"Better than the {others:.0f} % without routing in ambiguous scenes: {listed(right, deciding)}; not "
        f"better: {listed(right, left)}. In crowded scenes dynamic routing, which compares by dot product, "
        f"has {right[DYNAMIC]['crowded']:.0f} %. A part counts where most of it is: of contested ones the "
        f"decoy still has {100 * contest[DYNAMIC][-1]:.0f} % under dynamic routing, and "
        f"{100 * contest[EM][-1]:.0f} % under EM.",
        question="Does every routing decide what is ambiguous?",
    )


def listed(right: Right, names: list[str]) -> str:
    """What some routings have in ambiguous scenes.

    >>> listed({"EM": {"ambiguous": 98.7}, "k-means": {"ambiguous": 40.0}}, ["EM", "k-means"]), listed({}, [])
    ('EM 99 %, k-means 40 %', 'none')
    """
    return ", ".join(f"{name} {right[name]['ambiguous']:.0f} %" for name in names) or "none"


def word(one: float, other: float, count: int) -> str:
    """Who is better.

    >>> word(100.0, 50.0, 100), word(50.0, 51.0, 100), word(0.0, 50.0, 100)
    ('better', 'as good, but for chance', 'worse')
    """
    if significantly_higher(one, other, count):
        return "better"
    return "worse" if significantly_higher(other, one, count) else "as good, but for chance"


def strongest(right: Right) -> str:
    """What is best at ambiguous scenes without routing."""
    return max(WITHOUT, key=lambda name: right[name]["ambiguous"])


def caption_of(contest: Contest) -> str:
    """What is to be seen of an ambiguous scene."""
    kept = {name: 100 * shares[-1] for name, shares in contest.items()}
    text = (
        "Four parts in a row, two readings: the outer pairs are two wholes of one type (solid), the inner "
        "two agree just as well on a whole of the other type, lying on its side (dashed); the wider the "
        "line, the more of a part a whole has. The scene above was picked by its seed; below is the mean "
        "over all. The decoy is left with "
        + ", ".join(f"{share:.0f} % ({name})" for name, share in kept.items())
        + "."
    )
    if kept[EM] < 10:
        text += (
            " EM weighs how many votes a whole has, sees that the outer parts have nowhere else to go, and "
            "gives the decoy up."
        )
    if 40 < kept[KMEANS] < 60:
        text += " k-means, which knows distance alone, does not decide."
    return text
