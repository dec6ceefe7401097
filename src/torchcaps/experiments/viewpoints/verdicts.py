"""Verdicts on novel viewpoints, computed from the numbers alone."""

from __future__ import annotations

from collections.abc import Mapping

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.viewpoints.networks import CAPSULES, CNN, NETWORKS, PAPER, POOLED

VIEWPOINTS = ("azimuth", "elevation")
MAX_RATIO = 0.75
# With so few test toys, a ratio closer to 1 can be chance.
CLEAR_RATIO = 0.9
# Points by which familiar errors may differ in a comparison.
MAX_GAP = 3.0
# The paper compares at 3.7 and 4.3 %.
MAX_FAMILIAR = 5.0


def ratio(numbers: Mapping[str, float], viewpoint: str, name: str, other: str) -> float:
    """The novel error of a network divided by that of another one."""
    return numbers[f"{viewpoint}.{name}.novel"] / max(numbers[f"{viewpoint}.{other}.novel"], 1e-9)


def is_fair(numbers: Mapping[str, float], viewpoint: str, name: str, other: str) -> bool:
    """Whether two networks are equally good on familiar views."""
    gap = numbers[f"{viewpoint}.{name}.familiar"] - numbers[f"{viewpoint}.{other}.familiar"]
    return abs(gap) <= MAX_GAP


def judge(numbers: Mapping[str, float]) -> tuple[bool | None, str]:
    """The paper's capsules against the paper's CNN."""
    ratios = {viewpoint: ratio(numbers, viewpoint, PAPER, CNN) for viewpoint in VIEWPOINTS}
    fair = all(is_fair(numbers, viewpoint, PAPER, CNN) for viewpoint in VIEWPOINTS)
    parts = " and ".join(
        f"{ratios[viewpoint]:.2f} times for novel {viewpoint}s (familiar errors "
        f"{percent(numbers[f'{viewpoint}.{PAPER}.familiar'])} and "
        f"{percent(numbers[f'{viewpoint}.{CNN}.familiar'])})"
        for viewpoint in VIEWPOINTS
    )
    fewer = any(each <= CLEAR_RATIO for each in ratios.values())
    holds = all(each <= MAX_RATIO for each in ratios.values()) or (None if fewer else False)
    sentence = (
        f"The error of the paper's capsules on novel views, relative to that of the paper's CNN, is {parts}. "
        f"In the paper it is 0.68 and 0.69 times. (Criterion: at most {MAX_RATIO} times.)"
    )
    if not fair:
        sentence += " They are not equally good on familiar views, so this comparison is not reliable."
    return (holds if fair else None), sentence


def add_verdicts(study: Study) -> None:
    """Whether any capsule network is better than the strongest CNN, and at which familiar error."""
    numbers = study.numbers
    known = [name for name in NETWORKS if f"azimuth.{name}.novel" in numbers]
    for viewpoint in VIEWPOINTS:
        study.add_verdict(
            *any_capsules(numbers, viewpoint, known), question=f"Novel {viewpoint}s: can other capsules?"
        )
    levels = [numbers[f"{viewpoint}.{CNN}.familiar"] for viewpoint in VIEWPOINTS]
    study.add_verdict(
        max(levels) <= MAX_FAMILIAR,
        f"The familiar error of the paper's CNN is {percent(levels[0])} for azimuths and "
        f"{percent(levels[1])} for elevations; in the paper it is 3.7 and 4.3 %. (Criterion: at most "
        f"{MAX_FAMILIAR:.0f} %.)",
        question="Is this the regime of the paper?",
    )


def any_capsules(numbers: Mapping[str, float], viewpoint: str, known: list[str]) -> tuple[bool | None, str]:
    """Whether a capsule network has at most 0.75 of the CNN's error and is ahead of average pooling.

    Args:
        numbers: errors in percent.
        viewpoint: `"azimuth"` or `"elevation"`.
        known: names of the networks that were trained.
    """
    capsules = [name for name in CAPSULES if name in known and is_fair(numbers, viewpoint, name, CNN)]
    if not capsules:
        return None, "No capsule network is as good on familiar views as the paper's CNN."
    best = min(capsules, key=lambda name: numbers[f"{viewpoint}.{name}.validation_novel"])
    against = {other: ratio(numbers, viewpoint, best, other) for other in (CNN, POOLED)}
    reached = against[CNN] <= MAX_RATIO
    leads = against[POOLED] < 1 and is_fair(numbers, viewpoint, best, POOLED)
    return (True if reached and leads else None if reached else False), (
        f"Of {len(capsules)} capsule networks, “{best}” has the lowest error on novel {viewpoint}s of "
        f"validation toys. On test toys it has {percent(numbers[f'{viewpoint}.{best}.novel'])}: "
        f"{against[CNN]:.2f} times that of the paper's CNN and {against[POOLED]:.2f} times that of the light "
        f"trunk with average pooling. (Criterion: at most {MAX_RATIO} times the paper's CNN, and "
        "below average pooling.)"
    )
