from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from torchcaps.data import load
from torchcaps.experiments.framework.selection import rates_to_try
from torchcaps.experiments.framework.study import Claim, Study, count_parameters
from torchcaps.experiments.transforming.figures import draw_coordinates, draw_examples
from torchcaps.experiments.transforming.pairs import (
    MovedPair,
    random_rotations,
    random_shifts,
    random_turns,
    shift_images,
    transform_images,
)
from torchcaps.experiments.transforming.training import train_on_pairs
from torchcaps.experiments.transforming.verdicts import (
    CAPSULES,
    EXACT,
    KINDS,
    PLAIN,
    UNMOVED,
    Coordinates,
    Errors,
    add_verdicts,
    weighted_mean,
)
from torchcaps.models.transforming_autoencoder import PlainAutoencoder, TransformingAutoencoder

# The numbers of capsules, recognition units and generation units in the paper.
UNITS = {"shift": (30, 10, 20), "affine": (25, 40, 40), "turn": (25, 40, 40)}
POSES = {"shift": "shift", "affine": "affine", "turn": "affine"}
# The largest shift in pixels; for rotations the largest angle, and the largest shift as a fraction of half
# the image; for turns the largest number of steps of 20°.
LARGEST_SHIFT, LARGEST_ANGLE, LARGEST_ROTATED_SHIFT, LARGEST_TURN = 2, math.radians(30), 0.1, 2
LARGEST: dict[str, dict[str, float]] = {
    "shift": {"shift": LARGEST_SHIFT},
    "affine": {"angle": LARGEST_ANGLE, "shift": LARGEST_ROTATED_SHIFT},
    "turn": {"steps": LARGEST_TURN},
}
# Updates of each network.
STEPS = {"shift": 12_000, "affine": 12_000, "turn": 6000}
QUICK_STEPS = {"shift": 1500, "affine": 1500, "turn": 400}
# Each network has the rate that is better on validation images.
RATES = (3e-3, 1e-3)
# The quick form has no time for a choice; with the first rate this network draws the mean of all digits.
QUICK_RATES = {("affine", PLAIN): (1e-3,)}


def run(study: Study) -> None:
    """Train on pairs of one digit at two positions, and measure drawings and poses."""
    rows: list[list[Any]] = []
    errors: Errors = {}
    coordinates: Coordinates = {}
    networks: dict[str, dict[str, nn.Module]] = {}
    tests = {kind: load_images(study, kind, "test") for kind in KINDS}
    for kind, kind_name in KINDS.items():
        models = networks[kind] = train_networks(study, kind)
        pair = make_pairs(kind, tests[kind], torch.Generator().manual_seed(study.seed + 1))
        errors[kind] = study.cached(f"drawings, {kind_name}", partial(measure_errors, kind, models, pair))
        capsules = models[CAPSULES]
        assert isinstance(capsules, TransformingAutoencoder)
        coordinates[kind] = study.cached(
            f"coordinates, {kind_name}", partial(measure_coordinates, capsules, pair)
        )
        for name, each in errors[kind].items():
            parameters = count_parameters(models[name]) if name in models else None
            r_squared = weighted_mean(coordinates[kind]) if name == CAPSULES else None
            rows.append([kind_name, name, parameters, each["moved"], each["still"], r_squared])
            study.add_number(f"{kind}.{name}.moved", each["moved"])
        study.add_number(f"{kind}.coordinates", weighted_mean(coordinates[kind]))
        study.add_number(f"{kind}.best coordinates", max(coordinates[kind]["r_squared"]))
    study.add_table(
        "Drawings of moved images",
        [
            "image is",
            "drawn by",
            "parameters",
            "error, moved (%)",
            "error, not moved (%)",
            "R² of the poses",
        ],
        rows,
        caption="Error: squared difference from the true moved image, as a percentage of its squared pixels, "
        f"over {len(tests['shift']):,} test digits and {len(tests['turn']):,} new toys. R² of the poses: how "
        "well the pose for the moved image agrees with the pose for the input image plus the change (1 if "
        "equal, 0 if no better than an unchanged pose), mean over capsules weighted by their activation. "
        + (
            ""
            if study.quick
            else f"Each network has the better of the rates {' and '.join(f'{r:g}' for r in RATES)}, "
            "chosen on validation images. "
        )
        + "The paper shows images and scatter plots and gives no numbers.",
    )
    draw_examples(study, networks, tests, make_pairs)
    draw_coordinates(study, networks["shift"][CAPSULES], coordinates, tests["shift"], LARGEST_SHIFT)
    add_verdicts(study, errors, coordinates)


def load_images(study: Study, kind: str, part: str) -> Tensor:
    """Images in 0..1: digits `[N, 1, H, W]` with an empty border, or all views of toys `[N, A, 2, H, W]`.

    Args:
        study: its form and its data.
        kind: of the change.
        part: `"train"`, `"validation"` (the last tenth of the training images) or `"test"`.
    """
    split = "test" if part == "test" else "train"
    if kind == "turn":
        images = load_toys(split, quick=study.quick)
    elif study.quick:
        images = F.pad(load("digits", split, size=16).images.float() / 255, [3] * 4)
    else:
        images = load("mnist", split, data_dir=study.data_dir).images.float() / 255
    if part == "test":
        return images[:2000]
    held_out = len(images) // 10
    return images[-held_out:][:2000] if part == "validation" else images[:-held_out]


def load_toys(split: str, *, quick: bool) -> Tensor:
    """Stereo pairs of toys from all azimuths at one elevation, `[N, 18, 2, H, W]` in 0..1."""
    options: dict[str, Any] = {"size": 16} if quick else {"size": 24, "toys_per_category": 25}
    toys = load("toys", split, elevations=(4,), lightings=(2,), **options)
    azimuth, instance = toys.metadata["azimuth"], toys.metadata["instance"]
    order = (10_000 * toys.labels + 100 * instance + azimuth).argsort()
    views = (toys.images[order].float() / 255).unflatten(0, (-1, len(azimuth.unique())))
    # In a random order, so that the validation toys are of all categories.
    return views[torch.randperm(len(views), generator=torch.Generator().manual_seed(0))]


def make_pairs(kind: str, images: Tensor, generator: Generator) -> MovedPair:
    """Two random positions of each image, or two views of each toy."""
    if kind == "shift":
        return random_shifts(images, LARGEST_SHIFT, generator)
    if kind == "turn":
        return random_turns(images, LARGEST_TURN, generator)
    return random_rotations(images, LARGEST_ANGLE, LARGEST_ROTATED_SHIFT, generator)


def train_networks(study: Study, kind: str) -> dict[str, nn.Module]:
    """The transforming auto-encoder, and an auto-encoder without capsules, each with its better rate."""
    images, validation = (load_images(study, kind, part) for part in ("train", "validation"))
    held_out = make_pairs(kind, validation, torch.Generator().manual_seed(study.seed + 2))
    steps = (QUICK_STEPS if study.quick else STEPS)[kind]
    chosen: dict[str, nn.Module] = {}
    for name in (CAPSULES, PLAIN):
        every = QUICK_RATES.get((kind, name), RATES[:1]) if study.quick else RATES
        rates = rates_to_try(study, f"{kind}.{name}", every)
        tried: dict[float, tuple[float, nn.Module]] = {}
        for rate in rates:
            step = f"{kind}, {name}, lr {rate:g}"
            model = build(kind, name, held_out.before.shape[1:], study.seed)
            training: dict[str, Any] = {"steps": steps, "batch_size": 64, "lr": rate}
            study.record_settings(
                step,
                images=len(images),
                size=images.shape[-1],
                largest=LARGEST[kind],
                units=UNITS[kind],
                seed=study.seed,
                **training,
            )
            train_on_pairs(study, step, model, images, partial(make_pairs, kind), **training)
            with torch.no_grad():
                drawn = model(held_out.before, held_out.change).images
            tried[rate] = drawing_error(drawn, held_out.after), model
        best = min(rates, key=lambda rate: tried[rate][0])
        study.add_number(f"lr.{kind}.{name}", best)
        chosen[name] = tried[best][1]
    return chosen


def build(kind: str, name: str, image_shape: Sequence[int], seed: int) -> nn.Module:
    """An untrained network for a kind of change; both have as many units."""
    channels, height, width = image_shape
    capsules, recognition, generation = UNITS[kind]
    shape, numbers = (channels, height, width), 2 if kind == "shift" else 9
    torch.manual_seed(seed)
    if name == CAPSULES:
        return TransformingAutoencoder(shape, capsules, recognition, generation, pose=POSES[kind])
    return PlainAutoencoder(
        shape, capsules * recognition, capsules * (1 + numbers), capsules * generation, numbers
    )


@torch.no_grad()
def measure_errors(kind: str, models: dict[str, nn.Module], pair: MovedPair) -> dict[str, dict[str, float]]:
    """Errors in percent when the image moves and when it does not, with and without a network."""
    no_change = torch.zeros_like(pair.change) if kind == "shift" else torch.eye(3).expand_as(pair.change)
    errors: dict[str, dict[str, float]] = {}
    for name, model in models.items():
        moved, still = model(pair.before, pair.change).images, model(pair.before, no_change).images
        errors[name] = {"moved": drawing_error(moved, pair.after), "still": drawing_error(still, pair.before)}
    errors[UNMOVED] = {"moved": drawing_error(pair.before, pair.after), "still": 0.0}
    if kind == "turn":
        return errors  # no movement of pixels turns a toy
    move = shift_images if kind == "shift" else transform_images
    errors[EXACT] = {"moved": drawing_error(move(pair.before, pair.change), pair.after), "still": 0.0}
    return errors


def drawing_error(drawing: Tensor, true: Tensor) -> float:
    """Squared difference as a percentage of the squared pixels of the true images.

    >>> drawing_error(torch.zeros(2, 1, 3, 3), torch.ones(2, 1, 3, 3))
    100.0
    """
    return round(100 * float((drawing - true).square().sum() / true.square().sum()), 3)


@torch.no_grad()
def measure_coordinates(model: TransformingAutoencoder, pair: MovedPair) -> dict[str, list[float]]:
    """Mean activation of each capsule, and R² of its pose for the moved image.

    The expected pose is the pose for the first image, moved by the known change.
    """
    before, after = model.look(pair.before), model.look(pair.after)
    expected = model.move(before, pair.change).pose
    activation = before.activation
    residual = (after.pose - expected).flatten(2).square().sum(2)
    distance = (expected - before.pose).flatten(2).square().sum(2)
    r_squared = 1 - (activation * residual).sum(0) / (activation * distance).sum(0).clamp(min=1e-12)
    return {"activation": activation.mean(0).tolist(), "r_squared": r_squared.tolist()}


CLAIM = Claim(
    name="transforming",
    claim="trained to draw an image after a given movement, capsules learn positions as their poses",
    source="Hinton, Krizhevsky, Wang, “Transforming Auto-encoders” (2011)",
    data="MNIST and rendered toys",
    quick_data="scikit-learn's digits and rendered toys",
    minutes=40,
    run=run,
    published="the paper shows images and scatter plots and gives no numbers",
)
