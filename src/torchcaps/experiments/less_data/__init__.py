from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from torchcaps.data import limit_images, load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import BLUE, GREEN, ORANGE, PINK, YELLOW, add_axes, new_figure
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.selection import rates_to_try
from torchcaps.experiments.framework.study import Claim, Study, count_parameters
from torchcaps.experiments.less_data.networks import (
    CAPSULES,
    CNNS,
    DENSE,
    NETWORKS,
    PAPER,
    POOLED,
    UNIFORM,
    build,
    error_rate,
    fit,
)

SIZES, QUICK_SIZES = (100, 300, 1000, 3000), (50, 200, 800)
COLORS = {CAPSULES: BLUE, UNIFORM: GREEN, PAPER: PINK, DENSE: ORANGE, POOLED: YELLOW}
# Capsules have to need at most this share of the images that the best CNN needs for the same error.
FRACTION = 0.5


def run(study: Study) -> None:
    """Train every network on parts of the training images, each part contained in the next one."""
    sizes = QUICK_SIZES if study.quick else SIZES
    rates, steps = ((2e-3,), 150) if study.quick else ((1e-3, 3e-3), 1000)
    settings: dict[str, Any] = {"steps": steps, "batch_size": 32, "seed": study.seed}
    study.record_settings("training", sizes=sizes, rates=rates, **settings)
    train, validation, test = load_images(study)
    errors: dict[str, dict[int, float]] = {}
    rows: list[list[Any]] = []
    for name in NETWORKS:
        errors[name] = {}
        for size in sizes:
            some = limit_images(train, size, seed=study.seed)
            tried = rates_to_try(study, f"{name}.{size}", rates)
            step = partial(measure, name, some, validation, test, {"rates": tried, **settings})
            measured = study.cached(f"{name}, {size} images", step)
            errors[name][size] = measured["error"]
            study.add_number(f"{name}.{size}", measured["error"])
            study.add_number(f"lr.{name}.{size}", measured["lr"])
        rows.append([name, count_parameters(build(name, test.images.shape[-1])), *errors[name].values()])
    for name in CNNS:
        study.add_number(f"share of images.{name}", image_share(errors[CAPSULES], errors[name]))
    study.add_table(
        "Test error by the number of training images",
        ["network", "parameters", *(f"{size:,} images (%)" for size in sizes)],
        rows,
        caption="All networks but the CNN of the paper share two convolutions; capsules have a decoder, "
        f"whose parameters are counted. Each was trained for {steps} steps of {settings['batch_size']} "
        f"images. Learning rate (of {', '.join(f'{rate:g}' for rate in rates)}) and step were chosen on "
        f"{len(validation):,} validation "
        f"images. No augmentation. {len(test):,} test images.",
    )
    draw_errors(study, errors)
    add_verdicts(study, errors)


def measure(
    name: str, train: ImageSet, validation: ImageSet, test: ImageSet, settings: Mapping[str, Any]
) -> dict[str, float]:
    """Train a network on these images; its test error, and what was chosen on validation images."""
    fitted = fit(name, train, validation, **settings)
    return {
        "error": error_rate(fitted.model, test),
        "validation": fitted.validation,
        "lr": fitted.lr,
        "step": fitted.step,
    }


def load_images(study: Study) -> tuple[ImageSet, ImageSet, ImageSet]:
    """Training, validation and test images; the first two are disjoint parts of the training set."""
    if study.quick:
        train, test = (load("digits", split, size=20) for split in ("train", "test"))
        held_out = 300
    else:
        train, test = (load("mnist", split, data_dir=study.data_dir) for split in ("train", "test"))
        held_out, test = 500, test.select(torch.arange(5000))
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(study.seed))
    return train.select(order[held_out:]), train.select(order[:held_out]), test


def image_share(capsules: Mapping[int, float], cnn: Mapping[int, float]) -> float:
    """The share of a CNN's training images that capsules need for the same error.

    Errors fall about as a power of the number of images, e = c n⁻ˢ. If the errors of capsules are ρ times
    those of the CNN (geometric mean over sizes), they need ρ^(1/s) of the images.

    Example:
        >>> image_share({100: 5.0, 400: 2.5}, {100: 10.0, 400: 5.0})
        0.25
    """
    sizes = sorted(cnn)
    # An error of 0 has no logarithm; a tenth of a percent stands for it.
    a, b = ({size: math.log(max(each[size], 0.1)) for size in sizes} for each in (capsules, cnn))
    ratio = sum(a[size] - b[size] for size in sizes) / len(sizes)
    slope = (b[sizes[0]] - b[sizes[-1]]) / math.log(sizes[-1] / sizes[0])
    return round(math.exp(ratio / max(slope, 0.1)), 4)


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    """Whether capsules need at most half of the images of every CNN."""
    shares = {name: numbers[f"share of images.{name}"] for name in CNNS}
    sizes = sorted(int(name.rpartition(".")[2]) for name in numbers if name.startswith(f"{CAPSULES}."))
    few = sizes[0]
    return (
        max(shares.values()) <= FRACTION,
        f"For the same error, capsules need {shares[PAPER]:.2f} times the images of the CNN of the paper, "
        f"{shares[DENSE]:.2f} times those of the same convolutions with dense layers and "
        f"{shares[POOLED]:.2f} times those with average pooling. With {few} images their error is "
        f"{percent(numbers[f'{CAPSULES}.{few}'])}, and that of the three CNNs "
        f"{percent(numbers[f'{PAPER}.{few}'])}, {percent(numbers[f'{DENSE}.{few}'])} and "
        f"{percent(numbers[f'{POOLED}.{few}'])}. (Criterion: at most {FRACTION:g} times the images of each "
        "CNN.)",
    )


def add_verdicts(study: Study, errors: Mapping[str, Mapping[int, float]]) -> None:
    """Whether routing is the reason."""
    share = image_share(errors[CAPSULES], errors[UNIFORM])
    study.add_number(f"share of images.{UNIFORM}", share)
    few = min(errors[CAPSULES])
    study.add_verdict(
        share <= FRACTION,
        f"Capsules with routing need {share:.2f} times the images of capsules with uniform coupling; with "
        f"{few} images the errors are {percent(errors[CAPSULES][few])} and "
        f"{percent(errors[UNIFORM][few])}. (Criterion: at most {FRACTION:g} times.)",
        question="Is routing the reason?",
    )


def draw_errors(study: Study, errors: Mapping[str, Mapping[int, float]]) -> None:
    """Draw the errors against the number of training images."""
    figure = new_figure(5.4, 3.8)
    ax = add_axes(figure)[0]
    for name, by_size in errors.items():
        ax.plot(list(by_size), list(by_size.values()), marker="o", color=COLORS[name], label=name)
    sizes = list(errors[CAPSULES])
    ax.set(xscale="log", yscale="log", xlabel="training images", ylabel="test error (%)")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.minorticks_off()
    every = [error for by_size in errors.values() for error in by_size.values()]
    low, high = min(every), max(every)
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if low / 2 <= tick <= 2 * high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.legend(fontsize=8)
    study.add_figure(
        "errors",
        figure,
        caption="Test error against the number of training images, both on logarithmic scales. A curve that "
        "is lower, or farther left, needs less data.",
    )


CLAIM = Claim(
    name="less-data",
    claim="capsules need only a fraction of the training images of a CNN",
    source="tutorials on capsules since 2017, after talks by Hinton",
    data="MNIST, 100 to 3,000 training images",
    quick_data="scikit-learn's digits, 50 to 800 training images",
    minutes=40,
    run=run,
    judge=judge,
    published="the tutorials give no numbers",
)
