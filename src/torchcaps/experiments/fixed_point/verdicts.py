"""What a hundred iterations of both updates say: captions and verdicts from numbers alone."""

from __future__ import annotations

from typing import Any

from torchcaps.experiments.framework.statistics import chance_margin
from torchcaps.experiments.framework.study import Study

ITERATIONS = 100
Curves = dict[str, dict[str, dict[str, Any]]]
"""What `follow` found, by the update that was routed with and the one that was trained with."""
# Couplings are at 0 or 1 if this percentage is; poses are at rest if they move by less in an iteration.
SETTLED, REST = 90.0, 1e-6


def judge(study: Study, curves: Curves, count: int) -> None:
    """What came out on `count` test images."""
    hard, soft = (curves[update]["accumulate"] for update in ("accumulate", "fixed_point"))
    driven, rests = hard["settled"] >= SETTLED, soft["change"][-1] < REST
    study.add_verdict(
        True if driven and rests else None if driven or rests else False,
        f"After {ITERATIONS} iterations accumulation has {hard['settled']:.0f} % of the couplings at 0 or 1, "
        f"the fixed point {soft['settled']:.0f} % (the mark: {SETTLED:.0f}). Accumulation has "
        f"{left(hard)}, the fixed point {left(soft)}. The fixed point's poses move by "
        f"{tiny(soft['change'][-1])} per iteration, {'at rest' if rests else 'not yet at rest'} (the mark: "
        f"{tiny(REST)}), those of accumulation by {tiny(hard['change'][-1])}.",
    )
    if soft["entropy"][-1] > 90:
        study.add_text(
            "So soft are the couplings of the fixed point that it stays close to even shares, which are no "
            "routing at all."
        )
    own, other = curves["fixed_point"]["fixed_point"]["accuracy"], hard["accuracy"]
    by_chance = chance_margin(own[-1], own[2], count)
    gain = own[-1] - own[2]
    word = "better" if gain > by_chance else "worse" if gain < -by_chance else "no different"
    study.add_verdict(
        gain > by_chance,
        "The essay says so of the fixed point. In the network trained with it, accuracy goes from "
        f"{own[0]:.1f} % at r = 1 to {own[2]:.1f} % at r = 3 and {own[-1]:.1f} % at r = {ITERATIONS}: {word} "
        f"than at r = 3, where {by_chance:.1f} can be chance on {count:,} images. Accumulation in its own "
        f"network goes from {other[2]:.1f} % at r = 3 to {other[-1]:.1f} %.",
        question="Are more iterations simply better?",
    )


def left(found: dict[str, Any]) -> str:
    """What entropy couplings have in the end, and where it is going.

    >>> left({"entropy": [100.0] * 90 + [50.0] * 9 + [5.0]}), left({"entropy": [98.0] * 100})
    ('5 % of their entropy left and falling', '98 % of their entropy left and steady')
    """
    before, now = found["entropy"][-11], found["entropy"][-1]
    way = "steady" if abs(now - before) < 0.05 else "falling" if now < before else "rising"
    return f"{now:.0f} % of their entropy left and {way}"


def tiny(value: float) -> str:
    """A small number, kept in one line.

    >>> tiny(5.149e-9) == "5e\N{NON-BREAKING HYPHEN}09"
    True
    """
    return f"{value:.0e}".replace("-", "\N{NON-BREAKING HYPHEN}")


def caption_of(curves: dict[str, dict[str, Any]]) -> str:
    """What is to be seen in the curves of the network trained with accumulation."""
    rests = curves["fixed_point"]["change"][-1] < REST
    return (
        "The network trained with accumulation and 3 iterations (dotted), routed further. In the end the "
        f"couplings of accumulation have {left(curves['accumulate'])}; those of the fixed point "
        f"{left(curves['fixed_point'])}, and its poses {'have come' if rests else 'have not come'} to rest."
    )
