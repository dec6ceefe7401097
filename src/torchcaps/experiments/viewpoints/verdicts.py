"""Verdicts on novel viewpoints, computed from the numbers alone."""

from __future__ import annotations

from collections.abc import Mapping

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.statistics import EpochErrors, comparable
from torchcaps.experiments.framework.study import Study

CAPSULES, UNROUTED, CNN = "capsules, EM routing", "capsules, no routing (1 iteration)", "CNN"
MAX_RATIO = 0.75
# With so few test toys, a ratio closer to 1 can be chance.
CLEAR_RATIO = 0.9


def error_ratio(chosen: dict[str, EpochErrors]) -> float:
    """The novel error of capsules divided by that of the CNN."""
    return chosen[CAPSULES].novel / max(chosen[CNN].novel, 1e-9)


def add_verdicts(study: Study, chosen: dict[str, dict[str, EpochErrors]]) -> None:
    """Compare capsules with the CNN, and with capsules without routing.

    Args:
        study: gets the verdicts.
        chosen: errors of the models that are compared, by viewpoint and network.
    """
    study.add_verdict(*compare_with_cnn(chosen))
    for viewpoint, errors in chosen.items():
        if UNROUTED not in errors or not comparable(errors[CAPSULES], errors[UNROUTED]):
            continue
        study.add_verdict(
            errors[CAPSULES].novel <= CLEAR_RATIO * errors[UNROUTED].novel,
            f"On novel {viewpoint}s the error of capsules is {percent(errors[CAPSULES].novel)} with routing "
            f"and {percent(errors[UNROUTED].novel)} without.",
            question=f"Novel {viewpoint}s: is routing the reason?",
        )


def judge(numbers: Mapping[str, float]) -> tuple[bool | None, str]:
    """Compare capsules with the CNN."""
    viewpoints = [name.removesuffix(".ratio") for name in numbers if name.endswith(".ratio")]
    return compare_with_cnn(
        {
            viewpoint: {
                # The epochs of several seeds differ, and nothing here depends on them.
                name: EpochErrors(
                    0, numbers[f"{viewpoint}.{name}.familiar"], numbers[f"{viewpoint}.{name}.novel"]
                )
                for name in (CAPSULES, CNN)
            }
            for viewpoint in viewpoints
        }
    )


def compare_with_cnn(chosen: dict[str, dict[str, EpochErrors]]) -> tuple[bool | None, str]:
    """Whether capsules have far fewer errors on novel views, if both are equally good on familiar ones."""
    ratios = {viewpoint: error_ratio(errors) for viewpoint, errors in chosen.items()}
    fair = all(comparable(errors[CAPSULES], errors[CNN]) for errors in chosen.values())
    parts = " and ".join(
        f"{ratios[viewpoint]:.2f} times for novel {viewpoint}s (familiar errors "
        f"{percent(errors[CAPSULES].familiar)} and {percent(errors[CNN].familiar)})"
        for viewpoint, errors in chosen.items()
    )
    fewer = any(ratio <= CLEAR_RATIO for ratio in ratios.values())
    holds = all(ratio <= MAX_RATIO for ratio in ratios.values()) or (None if fewer else False)
    return (
        holds if fair else None,
        f"The error of capsules on novel views, relative to that of the CNN, is {parts}. In the paper it is "
        f"0.68 and 0.69 times. (Criterion: at most {MAX_RATIO} times.)"
        + (
            ""
            if fair
            else " They are not equally good on familiar views, so this comparison is not reliable."
        ),
    )
