"""Verdicts on adversarial attacks, computed from the numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchcaps.experiments.framework.formatting import percent, small_number
from torchcaps.experiments.framework.statistics import chance_margin, significantly_higher
from torchcaps.experiments.framework.study import Study

CAPSULES, UNROUTED, CNN = "capsules, EM routing", "capsules, no routing", "CNN"
SELF_ROUTING = "capsules, self-routing"
# The trunk of self-routing with other heads.
POOLED, DENSE = "same trunk, average pooling", "same trunk, dense layer"
# Points by which accuracies on unchanged images may differ in a comparison.
MAX_GAP = 5.0
# Key of the accuracy on images that were changed to attack the other one of capsules and CNN.
FROM_OTHER = "from_other"
# The paper found the gradients of capsules smaller by two orders of magnitude, and still used them.
SMALLEST_GRADIENT = 1 / 100
Results = dict[str, dict[str, Any]]
"""Results of `measure_network`, by network."""


def judge(numbers: Mapping[str, float]) -> tuple[bool | None, str]:
    """Whether capsules are more robust to one step along the gradient than the CNN."""
    prefix = f"{CAPSULES}.fgsm."
    sizes = [name.removeprefix(prefix) for name in numbers if name.startswith(prefix)]
    results: Results = {
        name: {
            "epsilon": [float(size) for size in sizes],
            "count": int(numbers["images"]),
            "fgsm": [numbers[f"{name}.fgsm.{size}"] for size in sizes],
        }
        for name in (CAPSULES, CNN)
    }
    holds, text = compare(results, "fgsm")
    clean = numbers[f"{CAPSULES}.clean"], numbers[f"{CNN}.clean"]
    fair = abs(clean[0] - clean[1]) <= MAX_GAP
    return (holds if fair else None), (
        f"One step (FGSM): {text}. On unchanged images capsules have {percent(clean[0])} correct and the CNN "
        f"{percent(clean[1])}." + ("" if fair else " They are not equally good, so this is not reliable.")
    )


def add_verdicts(study: Study, results: Results, guessing: float, pgd_count: int) -> None:
    """All further questions: chance, gradients, targets, many steps, and black boxes.

    Args:
        study: gets the verdicts.
        results: of all networks.
        guessing: accuracy of random guessing in percent.
        pgd_count: images that PGD was run on.
    """
    add_chance(study, results, guessing)
    add_gradients(study, results)
    capsules, cnn = results[CAPSULES]["targeted"][-1], results[CNN]["targeted"][-1]
    study.add_verdict(
        significantly_higher(cnn, capsules, results[CAPSULES]["count"]),
        f"Targeted FGSM at ε = {results[CAPSULES]['epsilon'][-1]:g} makes the network choose a given wrong "
        f"class for {percent(capsules)} of the images with capsules and for {percent(cnn)} with the CNN.",
        question="Are capsules more robust to targeted attacks?",
    )
    holds, text = compare(results, "bim")
    study.add_verdict(
        holds, f"Many steps (BIM): {text}.", question="Are capsules more robust to attacks with many steps?"
    )
    add_strongest(study, results, pgd_count)
    add_same_trunk(study, results)
    holds, text = compare(results, "transfer")
    study.add_verdict(
        {True: False, False: True, None: None}[holds],
        f"Images that were changed to attack another CNN: {text}. The paper found no difference.",
        question="Is there no difference under black-box attacks, as in the paper?",
    )
    holds, text = compare(results, FROM_OTHER)
    study.add_verdict(
        holds,
        f"Each on images that were changed to attack the other one: {text}.",
        question="Do attacks on the CNN fool capsules less than attacks on capsules fool the CNN?",
    )


def add_same_trunk(study: Study, results: Results) -> None:
    """Whether self-routing is more robust than other heads on its trunk."""
    index = 1
    robust = {name: results[name]["fgsm"][index] for name in (SELF_ROUTING, POOLED, DENSE)}
    clean = {name: results[name]["clean"] for name in robust}
    ahead = [
        significantly_higher(robust[SELF_ROUTING], robust[other], results[SELF_ROUTING]["count"])
        for other in (POOLED, DENSE)
    ]
    fair = all(abs(clean[SELF_ROUTING] - clean[other]) <= MAX_GAP for other in (POOLED, DENSE))
    answer = True if all(ahead) else None if any(ahead) else False
    study.add_verdict(
        answer if fair else None,
        f"Under FGSM at ε = {results[SELF_ROUTING]['epsilon'][index]:g} self-routing has "
        f"{percent(robust[SELF_ROUTING])} correct, average pooling on the same trunk "
        f"{percent(robust[POOLED])} and a dense layer {percent(robust[DENSE])}; on unchanged images "
        f"{percent(clean[SELF_ROUTING])}, {percent(clean[POOLED])} and {percent(clean[DENSE])}. (Criterion: "
        f"better than both by more than chance, at accuracies within {MAX_GAP:.0f} points.)",
        question="Is self-routing more robust than other heads on its trunk?",
    )


def add_chance(study: Study, results: Results, guessing: float) -> None:
    """Whether one step pushes the CNN below random guessing, and capsules never, as in the paper."""
    lowest = {name: min(results[name]["fgsm"]) for name in (CAPSULES, CNN)}
    below = {
        name: significantly_higher(guessing, accuracy, results[CAPSULES]["count"])
        for name, accuracy in lowest.items()
    }
    study.add_verdict(
        not below[CAPSULES],
        f"Under FGSM the lowest accuracy of capsules is {percent(lowest[CAPSULES])} and that of the CNN "
        f"{percent(lowest[CNN])}; random guessing has {percent(guessing)}. In the paper capsules are never "
        "below it, and the CNN is far below. (Criterion: not below by more than two standard errors.)",
        question="Are capsules never below chance under FGSM?",
    )


def add_gradients(study: Study, results: Results) -> None:
    """Whether capsules have gradients to attack along, so that robustness is not for want of them."""
    zero = {name: results[name]["zero_pixels"] for name in (CAPSULES, CNN)}
    ratio = results[CAPSULES]["gradient"] / max(results[CNN]["gradient"], 1e-300)
    study.add_number("gradient ratio", ratio)
    few_zeros, large = zero[CAPSULES] <= zero[CNN] + 1, ratio >= SMALLEST_GRADIENT
    study.add_verdict(
        True if few_zeros and large else None if few_zeros or large else False,
        f"{percent(zero[CAPSULES])} of the gradients of capsules are exactly 0, and {percent(zero[CNN])} of "
        f"those of the CNN. Without scaling, the median gradient of capsules is {small_number(ratio)} times "
        "that of the CNN. In the paper capsules have fewer zeros, and gradients smaller by two orders of "
        "magnitude.",
        question="Are the gradients of capsules usable for attacks?",
    )


def add_strongest(study: Study, results: Results, count: int) -> None:
    """Whether capsules are more robust to the strongest attack: PGD from several points, with either loss."""
    least = {name: min(results[name][kind] for kind in ("pgd", "pgd_logits")) for name in (CAPSULES, CNN)}
    study.add_verdict(
        significantly_higher(least[CAPSULES], least[CNN], count),
        f"PGD with restarts at ε = {results[CAPSULES]['epsilon'][1]:g} leaves {percent(least[CAPSULES])} of "
        f"the images correct with capsules and {percent(least[CNN])} with the CNN. It follows the "
        f"cross-entropy ({percent(results[CAPSULES]['pgd'])} and {percent(results[CNN]['pgd'])}) or the lead "
        f"of a wrong logit ({percent(results[CAPSULES]['pgd_logits'])} and "
        f"{percent(results[CNN]['pgd_logits'])}).",
        question="Are capsules more robust to the strongest attack?",
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
