"""Verdicts on equivariance, computed from the numbers alone."""

from __future__ import annotations

from collections.abc import Mapping

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Study

DECODED, UNIFORM = "capsules with decoder", "capsules with decoder, uniform coupling"
SHARED, POOLED = "shared capsules", "CNN, pooled features"
DENSE = "CNN of the paper, dense features"
PIXELS = "pixels, 16 components"
# The features of a CNN reduced to as many numbers as a pose has.
COMPONENTS = {POOLED: "CNN, 16 components", DENSE: "CNN of the paper, 16 components"}
# Test errors may differ by so many points in a comparison of features.
MAX_GAP = 1.0
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
    """Whether a CNN does the same, whether poses predict the change best, and what routing does."""
    capsules = results[DECODED]
    cnns = {name: results[name] for name in (POOLED, DENSE)}
    own = capsules["score"] / capsules["features"]
    others = {name: each["score"] / max(each["features"], 1e-9) for name, each in cnns.items()}
    study.add_verdict(
        own < min(others.values()) / 2,
        f"Divided by the change of the features, the change of the score is {own:.2f} for capsules, "
        f"{others[POOLED]:.2f} for the CNN with pooling and {others[DENSE]:.2f} for the CNN of the paper. "
        "(Criterion: at most half of that of both CNNs.)",
        question="Is this special to capsules?",
    )
    # Features that predict less than as many components of the pixels are of no use.
    fewer = max(results[name]["mean"] for name in (*COMPONENTS.values(), PIXELS))
    whole = max(each["mean"] for each in cnns.values())
    better = capsules["mean"] > fewer + 0.02
    fair = all(abs(each["error"] - capsules["error"]) <= MAX_GAP for each in cnns.values())
    answer = better if capsules["mean"] > whole else (None if better else False)
    study.add_verdict(
        answer if fair else None,
        "The change of the digit can be predicted from the change of the 16 numbers of a pose with R² "
        f"{capsules['mean']:.2f}, from 16 principal components of the features of a CNN with at most "
        f"{max(results[name]['mean'] for name in COMPONENTS.values()):.2f}, from all features of a CNN with "
        f"at most {whole:.2f}, and from 16 principal components of the pixels with "
        f"{results[PIXELS]['mean']:.2f}."
        + ("" if fair else " The test errors of the networks differ too much for a comparison."),
        question="Does the pose predict the change better than other features?",
    )
    gain = capsules["mean"] - results[UNIFORM]["mean"]
    study.add_verdict(
        gain > 0.02,
        f"R² is {results[UNIFORM]['mean']:.2f} with uniform coupling and {capsules['mean']:.2f} with dynamic "
        f"routing. Shared capsules, which have no decoder, have {results[SHARED]['mean']:.2f}.",
        question="Is routing the reason?",
    )
