"""Verdicts on equivariance, computed from the numbers alone."""

from __future__ import annotations

from collections.abc import Mapping

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Study

DECODED, UNIFORM = "capsules with decoder", "capsules with decoder, uniform coupling"
SHARED, POOLED = "shared capsules", "CNN, pooled features"
CNN_COMPONENTS, PIXELS = "CNN, 16 components", "pixels, 16 components"
Results = dict[str, dict[str, float]]
"""Results of `measure`, by features."""


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    """Whether lengths stay the same while poses change."""
    capsules, cnn = (
        {key: numbers[f"{name}.{key}"] for key in ("score", "features")} for name in (DECODED, POOLED)
    )
    return (
        capsules["score"] < capsules["features"] / 3,
        "When digits are shifted, rotated and scaled, the length of the capsule of the true class changes by "
        f"{percent(capsules['score'])} and its pose by {percent(capsules['features'])}. The score of the CNN "
        f"changes by {percent(cnn['score'])} and its features by {percent(cnn['features'])}. (Criterion: the "
        "length changes by less than a third of the change of the pose.)",
    )


def add_verdicts(study: Study, results: Results) -> None:
    """Whether poses predict the change best, and whether routing is the reason."""
    capsules, cnn, components = results[DECODED], results[POOLED], results[CNN_COMPONENTS]
    # Features that predict less than as many components of the pixels are of no use.
    better = capsules["mean"] > max(components["mean"], results[PIXELS]["mean"]) + 0.02
    study.add_verdict(
        better if capsules["mean"] > cnn["mean"] else (None if better else False),
        "The change of the digit can be predicted from the change of the 16 numbers of a pose with R² "
        f"{capsules['mean']:.2f}, from 16 principal components of the pooled features of a CNN with "
        f"{components['mean']:.2f}, from all these features with {cnn['mean']:.2f}, and from 16 principal "
        f"components of the pixels with {results[PIXELS]['mean']:.2f}.",
        question="Does the pose predict the change better than other features?",
    )
    gain = capsules["mean"] - results[UNIFORM]["mean"]
    study.add_verdict(
        gain > 0.02,
        f"R² is {results[UNIFORM]['mean']:.2f} with uniform coupling and {capsules['mean']:.2f} with dynamic "
        f"routing. Shared capsules, which have no decoder, have {results[SHARED]['mean']:.2f}.",
        question="Is routing the reason?",
    )
