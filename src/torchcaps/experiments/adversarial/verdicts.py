"""Verdicts on adversarial attacks, computed from the numbers alone."""

from __future__ import annotations

from typing import Any

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.statistics import chance_margin, significantly_higher
from torchcaps.experiments.framework.study import Study

CAPSULES, UNROUTED, CNN = "capsules, EM routing", "capsules, no routing", "CNN"
Results = dict[str, dict[str, Any]]
"""Results of `measure_network`, by network."""


def add_verdicts(study: Study, results: Results, guessing: float) -> None:
    """Compare capsules with the CNN under one step, a targeted step, many steps, and in a black box.

    Args:
        study: gets the verdicts.
        results: of all networks.
        guessing: accuracy of random guessing in percent.
    """
    lowest = min(results[CAPSULES]["fgsm"]), min(results[CNN]["fgsm"])
    holds, text = compare(results, "fgsm")
    study.add_verdict(
        holds,
        f"One step (FGSM): {text}. The lowest accuracy of capsules is {percent(lowest[0])} and that of the "
        f"CNN {percent(lowest[1])}; random guessing has {percent(guessing)}.",
    )
    capsules, cnn = results[CAPSULES]["targeted"][-1], results[CNN]["targeted"][-1]
    study.add_verdict(
        significantly_higher(cnn, capsules, results[CAPSULES]["count"]),
        f"Targeted FGSM at ε = {results[CAPSULES]['epsilon'][-1]:g} makes the network choose a given wrong "
        f"class for {percent(capsules)} of the images with capsules and for {percent(cnn)} with the CNN.",
        question="Are capsules more robust to targeted attacks?",
    )
    holds, text = compare(results, "bim")
    stronger = min(results[CAPSULES]["bim"]) < guessing / 2
    study.add_verdict(
        holds,
        f"Many steps (BIM): {text}."
        + (" Many small steps succeed where one large step goes too far." if stronger else ""),
        question="Are capsules more robust to attacks with many steps?",
    )
    holds, text = compare(results, "transfer")
    study.add_verdict(
        {True: False, False: True, None: None}[holds],
        f"Images that were changed to attack another CNN: {text}. The paper found no difference.",
        question="Is there no difference under black-box attacks, as in the paper?",
    )


def compare(results: Results, kind: str) -> tuple[bool | None, str]:
    """Whether capsules are better than the CNN under an attack.

    A difference within two standard errors does not count. As several ε are tried, a larger difference at a
    single one can still be chance, so capsules have to be better at half of them or more.

    Args:
        results: of all networks.
        kind: the attack.

    Returns:
        `True`; `False` if capsules are nowhere better; `None` if they are better at fewer ε, or worse at
        some. And a text.

    Example:
        >>> capsules = {"epsilon": [0.1, 0.2], "count": 500, "fgsm": [50.0, 9.0]}
        >>> compare({CAPSULES: capsules, CNN: {"fgsm": [60.0, 1.0]}}, "fgsm")
        (None, 'capsules are better at ε = 0.2 (9.0 %, CNN 1.0 %) and worse at ε = 0.1 (50.0 %, CNN 60.0 %)')
    """
    epsilons, capsules, cnn = results[CAPSULES]["epsilon"], results[CAPSULES][kind], results[CNN][kind]
    better: list[str] = []
    worse: list[str] = []
    for epsilon, a, b in zip(epsilons, capsules, cnn):
        if abs(a - b) > chance_margin(a, b, results[CAPSULES]["count"]):
            (better if a > b else worse).append(f"ε = {epsilon:g} ({percent(a)}, CNN {percent(b)})")
    parts = [f"better at {', '.join(better)}"] * bool(better) + [f"worse at {', '.join(worse)}"] * bool(worse)
    holds = bool(better) and (True if not worse and 2 * len(better) >= len(epsilons) else None)
    return holds, "capsules are " + (" and ".join(parts) or "neither better nor worse than the CNN at any ε")
