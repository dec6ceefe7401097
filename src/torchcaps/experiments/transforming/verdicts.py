"""Verdicts on transforming auto-encoders, computed from the numbers alone."""

from __future__ import annotations

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Study

CAPSULES, PLAIN = "capsules", "auto-encoder without capsules"
UNMOVED, EXACT = "input image, not moved", "pixels of the input, moved"
# Kinds of change, and how the report calls them.
KINDS = {"shift": "shifted", "affine": "rotated and shifted", "turn": "of a turned toy"}
FLAT = ("shift", "affine")
MIN_R_SQUARED = 0.5
Errors = dict[str, dict[str, dict[str, float]]]
"""Errors of `measure_errors`, by kind of change and network."""
Coordinates = dict[str, dict[str, list[float]]]
"""Results of `measure_coordinates`, by kind of change."""


def weighted_mean(coordinates: dict[str, list[float]]) -> float:
    """Mean R² over capsules, weighted by their mean activation.

    >>> weighted_mean({"activation": [1.0, 0.0], "r_squared": [0.5, -7.0]})
    0.5
    """
    pairs = zip(coordinates["activation"], coordinates["r_squared"])
    return sum(weight * value for weight, value in pairs) / max(1e-12, sum(coordinates["activation"]))


def add_verdicts(study: Study, errors: Errors, coordinates: Coordinates) -> None:
    """Whether moved images are drawn and poses are coordinates, and whether capsules are the reason."""
    shift, rotation = ({name: each["moved"] for name, each in errors[kind].items()} for kind in FLAT)
    mean = {kind: weighted_mean(coordinates[kind]) for kind in KINDS}
    best = {kind: max(coordinates[kind]["r_squared"]) for kind in KINDS}
    # The claim has two parts: the drawings, and the poses.
    conditions = [each[CAPSULES] < each[UNMOVED] / 2 for each in (shift, rotation)]
    conditions += [mean[kind] > MIN_R_SQUARED for kind in FLAT]
    study.add_verdict(
        True if all(conditions) else None if any(conditions) else False,
        f"Given a shift, capsules draw the shifted digit with an error of {percent(shift[CAPSULES])} (the "
        f"input image itself has {percent(shift[UNMOVED])}). Given a rotation as a matrix, the error is "
        f"{percent(rotation[CAPSULES])} (input image {percent(rotation[UNMOVED])}). The networks were not "
        "trained on positions. Their poses follow the true change with a mean R² of "
        f"{mean['shift']:.2f} for shifts and {mean['affine']:.2f} for rotations; the best capsule has "
        f"{best['shift']:.2f} and {best['affine']:.2f}. (Criterion: half the error of the input image, and a "
        f"mean R² above {MIN_R_SQUARED}, for both.)",
    )
    better = [each[CAPSULES] < each[PLAIN] for each in (shift, rotation)]
    study.add_verdict(
        True if all(better) else None if any(better) else False,
        "An auto-encoder without capsules, with as many units and the same input, is "
        f"{'worse' if better[0] else 'not worse'} for shifts (error {percent(shift[PLAIN])}, capsules "
        f"{percent(shift[CAPSULES])}) and {'worse' if better[1] else 'not worse'} for rotations (error "
        f"{percent(rotation[PLAIN])}, capsules {percent(rotation[CAPSULES])}). Each network has the "
        "better of the same two learning rates.",
        question="Are capsules the reason?",
    )
    turn = {name: each["moved"] for name, each in errors["turn"].items()}
    conditions = [turn[CAPSULES] < turn[UNMOVED] / 2, mean["turn"] > MIN_R_SQUARED]
    study.add_verdict(
        True if all(conditions) else None if any(conditions) else False,
        f"From a stereo pair of a new toy and a turn, capsules draw the turned toy with an error of "
        f"{percent(turn[CAPSULES])}, the auto-encoder without capsules with {percent(turn[PLAIN])}; the "
        f"input image has {percent(turn[UNMOVED])}. The poses follow the turn with a mean R² of "
        f"{mean['turn']:.2f}, and that of the best capsule with {best['turn']:.2f}. (Criterion: as for "
        "images.)",
        question="Also for turns in three dimensions?",
    )
