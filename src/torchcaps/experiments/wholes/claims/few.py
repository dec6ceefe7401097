from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.framework.figures import add_axes, new_figure
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.wholes.claims.figures import STYLES
from torchcaps.experiments.wholes.claims.networks import (
    ALL_ANGLES,
    CAPSULES,
    FULL,
    LABELS,
    ON_PARTS,
    QUICK,
    SET,
    Form,
    Networks,
    accuracy,
    whole_logits,
)
from torchcaps.experiments.wholes.fitting import outputs

# Wholes are learned and tested at all angles and many scales: only the scenes of the test are new.
WHOLES: dict[str, Any] = {"angle": ALL_ANGLES, "scale": (0.55, 0.9), "offset": (0.0, 0.1)}
COUNTS = (10, 30, 100, 300, 1000, 5000)
QUICK_COUNTS = (10, 100, 1000)
CNNS = ("dense_pretrained", "pooled_pretrained", "resnet_pretrained")
FEW, MANY = 100, 1000


def run(study: Study, form: Form | None = None) -> None:
    """Train networks on 10 to 5,000 wholes."""
    counts = QUICK_COUNTS if study.quick else COUNTS
    form = form or (QUICK if study.quick else FULL)
    names = (CAPSULES, *(CNNS[:1] if study.quick else CNNS), SET)
    networks = Networks(study, form, SHAPES, WHOLES)
    for name in names:
        for count in counts:
            networks.capsules(count) if name == CAPSULES else networks.baseline(name, count)
    study.record_settings("tests", count=form.test)
    errors = study.cached("errors", lambda: measure(networks, names, counts))
    rows = []
    for name in names:
        for count in counts:
            study.add_number(f"{name}.{count}", errors[name][str(count)])
        rows.append([LABELS[name], *errors[name].values()])
    study.add_table(
        "Error against the number of training wholes",
        ["network", *(f"{count:,} wholes: error (%)" for count in counts)],
        rows,
        caption=f"{form.test:,} new scenes of one whole, eight types. Wholes are learned and tested at all "
        "angles, scale 0.55 to 0.9. The part detector has seen loose parts only, and the CNNs were "
        "pretrained on the same scenes. Learning rates and steps of all but capsules were chosen on "
        f"{form.validation} validation scenes.",
    )
    draw_errors(study, names, counts)


def measure(networks: Networks, names: tuple[str, ...], counts: tuple[int, ...]) -> dict[str, Any]:
    """Percent of new scenes that are named wrong, by network and number of training wholes."""
    scenes = networks.draw("single", networks.form.test, "test")
    found = networks.find_parts(scenes.images)
    errors: dict[str, dict[str, float]] = {name: {} for name in names}
    for name in names:
        for count in counts:
            if name == CAPSULES:
                logits = whole_logits(networks.capsules(count).wholes, found)
            else:
                model = networks.baseline(name, count).model
                logits = outputs(model, found if name in ON_PARTS else (scenes.images,))
            errors[name][str(count)] = 100 - accuracy(logits, scenes.labels)
    return errors


def judge(numbers: Mapping[str, float]) -> tuple[bool | None, str]:
    """Whether capsules with 100 wholes are as good as the best CNN with 1,000.

    Args:
        numbers: errors in percent as `network.count`, of one seed or means over several.
    """
    rivals = {name: numbers[f"{name}.{MANY}"] for name in CNNS if f"{name}.{MANY}" in numbers}
    best = min(rivals, key=lambda name: rivals[name])
    own = numbers[f"{CAPSULES}.{FEW}"]
    equal = min(numbers[f"{name}.{FEW}"] for name in rivals)
    compared = "less than" if rivals[best] < own else "no less than"
    holds = True if own <= rivals[best] else None if own < equal else False
    return holds, (
        f"With {FEW} wholes, the error of capsules is {own:.2f} %, and that of the best CNN {equal:.1f} %; "
        f"with {MANY:,}, the best CNN, “{LABELS[best]}”, has {rivals[best]:.2f} %, {compared} capsules with "
        f"{FEW}, and capsules have {numbers[f'{CAPSULES}.{MANY}']:.2f} %. "
        f"A set transformer on the same found parts has {percent(numbers[f'{SET}.{FEW}'])} with {FEW} and "
        f"{percent(numbers[f'{SET}.{MANY}'])} with {MANY:,}. "
        f"(Criterion: capsules with {FEW} wholes are at least as good as the best CNN with {MANY:,}.)"
    )


def draw_errors(study: Study, names: tuple[str, ...], counts: tuple[int, ...]) -> None:
    """Draw the error against the number of training wholes, on logarithmic axes."""
    figure = new_figure(6.4, 4.8)
    (axes,) = add_axes(figure)
    for name in names:
        # An error of 0 has no place on this axis.
        errors = [max(study.numbers[f"{name}.{count}"], 0.03) for count in counts]
        axes.plot(counts, errors, marker="o", markersize=5, label=LABELS[name], **STYLES[name])
    axes.set(xscale="log", yscale="log", xlabel="training wholes", ylabel="error (%)")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    study.add_figure(
        "errors",
        figure,
        caption="Error on new wholes against the number of wholes in training; both axes are logarithmic, "
        "and errors below 0.03 % are drawn at 0.03 %.",
    )


CLAIM = Claim(
    name="few",
    claim="capsules need a tenth of the wholes that a CNN needs, because a whole is a relation of parts "
    "that are known already",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (2018); talks by Hinton since 2014",
    data="generated scenes of shapes",
    quick_data="generated scenes of shapes, smaller and fewer",
    minutes=60,
    run=run,
    judge=judge,
    seeds=5,
)
