"""Verdicts and a caption for a hundred iterations of both logit updates, computed from the numbers alone."""

from __future__ import annotations

from torchcaps.experiments.fixed_point.iterations import ITERATIONS, Curves
from torchcaps.experiments.framework.formatting import percent, small_number
from torchcaps.experiments.framework.statistics import chance_margin
from torchcaps.experiments.framework.study import Study

MIN_HARD = 90.0  # percent of the couplings that must be 0 or 1
MAX_CHANGE = 1e-6  # poses that change by less in an iteration have converged


def add_verdicts(study: Study, curves: dict[str, dict[str, Curves]], count: int) -> None:
    """Whether couplings become 0 or 1, whether poses converge, and whether more iterations are better.

    Args:
        study: gets the verdicts.
        curves: by the update of the test, then by the update of the training.
        count: test images.
    """
    accumulated, fixed = (curves[update]["accumulate"] for update in ("accumulate", "fixed_point"))
    hard, converged = accumulated["hard"] >= MIN_HARD, fixed["change"][-1] < MAX_CHANGE
    study.add_verdict(
        True if hard and converged else None if hard or converged else False,
        f"After {ITERATIONS} iterations, {percent(accumulated['hard'])} of the couplings are 0 or 1 with "
        f"accumulation, and {percent(fixed['hard'])} with the fixed-point update. The entropy of the "
        f"couplings is {entropy_text(accumulated)} with accumulation and {entropy_text(fixed)} with the "
        f"fixed-point update. In the last iteration the poses of the fixed-point update change by "
        f"{small_number(fixed['change'][-1])} ({'converged' if converged else 'not converged'}), those of "
        f"accumulation by {small_number(accumulated['change'][-1])}. (Criterion: at least {MIN_HARD:.0f} % "
        "of the couplings are 0 or 1 with accumulation, and poses change by less than "
        f"{small_number(MAX_CHANGE)} with the fixed-point update.)",
    )
    if fixed["entropy"][-1] > 90:
        study.add_text(
            "The couplings of the fixed-point update stay so close to uniform coupling that there is almost "
            "no routing."
        )
    own, other = curves["fixed_point"]["fixed_point"]["accuracy"], accumulated["accuracy"]
    margin = chance_margin(own[-1], own[2], count)
    gain = own[-1] - own[2]
    result = "better than" if gain > margin else "worse than" if gain < -margin else "not different from"
    study.add_verdict(
        gain > margin,
        "The essay says this about the fixed-point update. In the network trained with it, accuracy is "
        f"{percent(own[0])} with r = 1, {percent(own[2])} with r = 3 and {percent(own[-1])} with "
        f"r = {ITERATIONS}, which is {result} r = 3 (differences up to {margin:.1f} points can be chance "
        f"with {count:,} images). With accumulation in its own network, accuracy is {percent(other[2])} with "
        f"r = 3 and {percent(other[-1])} with r = {ITERATIONS}.",
        question="Are more iterations always better?",
    )


def entropy_text(curves: Curves) -> str:
    """The final entropy of the couplings, and whether it still changes.

    >>> falling = {"entropy": [100.0] * 90 + [50.0] * 9 + [5.0]}
    >>> entropy_text(falling), entropy_text({"entropy": [98.0] * 100})
    ('5.0 % and decreasing', '98.0 % and constant')
    """
    before, final = curves["entropy"][-11], curves["entropy"][-1]
    trend = "constant" if abs(final - before) < 0.05 else "decreasing" if final < before else "increasing"
    return f"{percent(final)} and {trend}"


def iterations_caption(curves: dict[str, Curves]) -> str:
    """The caption of the curves of the network trained with accumulation."""
    converged = curves["fixed_point"]["change"][-1] < MAX_CHANGE
    return (
        "The network trained with accumulation and 3 iterations (dotted line), tested with more iterations. "
        f"At the end the entropy of the couplings is {entropy_text(curves['accumulate'])} with accumulation "
        f"and {entropy_text(curves['fixed_point'])} with the fixed-point update, whose poses "
        f"{'have converged' if converged else 'have not converged'}."
    )
