from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import (
    BLUE,
    DARK,
    ORANGE,
    add_axes,
    color_overlay,
    hide_frame,
    new_figure,
)
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.statistics import significantly_higher
from torchcaps.experiments.framework.study import Claim, Study, count_parameters
from torchcaps.models import CapsuleModel, Model
from torchcaps.training import Recipe, evaluate, load_recipe, predict

DYNAMIC, UNIFORM = "capsules, dynamic routing", "capsules, uniform coupling"
CONVOLUTIONAL, DENSE, POOLED = "CNN of the paper", "same trunk, dense layer", "same trunk, average pooling"
CNNS = (CONVOLUTIONAL, DENSE, POOLED)
# The convolutions of the capsules with other heads.
HEADS = {DENSE: "dense_trunk", POOLED: "pooled_trunk"}
# New pairs for every epoch; the same number for all networks.
FULL = [
    "data.options={per_image=1}",
    "training.epochs=3",
    "training.ema_decay=0.995",
]
PUBLISHED = [
    ["paper: capsules", 11_400_000, 5.2, None, None, None],
    ["paper: CNN", 24_600_000, 8.1, None, None, None],
]
HEADINGS = [
    "wrong pairs (%)",
    "reconstruction error (%)",
    "brightness, digit in the image (%)",
    "brightness, digit not in the image (%)",
]
QUICK = [
    'data.options={source="digits", size=18, per_image=6}',
    "data.resample_each_epoch=false",
    "training.epochs=3",
    "training.batch_size=32",
    "training.ema_decay=0.99",
    "optimizer.lr=2e-3",
    "schedule.warmup_steps=0",
]
# The learning rate is the best of 2e-3, 1e-3 and 5e-4 for the CNN. It was chosen on the test pairs, which
# favors the CNN; for capsules no other rate was tried.
# The images are small and training is short, so the reconstruction loss has a larger weight.
QUICK_CAPSULES = [*QUICK, "model.options.channels=32", "loss.reconstruction=0.005"]
QUICK_CNN = [*QUICK, "model.options={channels=[16, 16, 8], hidden=[112, 64]}"]
PAIR_COLORS = (BLUE, ORANGE)


def run(study: Study) -> None:
    """Train each network on overlapping digits, count correct pairs, and reconstruct each digit alone."""
    pairs = load_test_pairs(study)
    rows: list[list[Any]] = []
    models = {name: load_network(study, name) for name in (DYNAMIC, UNIFORM, *CNNS)}
    results = {name: measure(study, name, model, pairs) for name, model in models.items()}
    for name, values in results.items():
        cells = [values.get(key) for key in ("error", "reconstruction", "present", "absent")]
        rows.append([name, count_parameters(models[name]), *cells])
    copy_error = 100 * float(
        reconstruction_error(pixels_of(pairs).expand(-1, 2, -1, -1), parts_of(pairs)).mean()
    )
    study.add_number("copy.reconstruction", copy_error)
    study.add_table(
        "Two overlapping digits",
        ["network", "parameters", *HEADINGS],
        [*rows, ["the input image as each digit", None, None, copy_error, None, None], *PUBLISHED],
        caption=f"{len(pairs):,} test pairs; a pair is correct only if both digits are. Reconstruction "
        "error: squared difference between a digit and the reconstruction from its capsule, as a "
        "percentage of the squared pixels of the digit. If the input image itself is taken as the "
        "reconstruction of each digit, the other digit is its error. Brightness: sum of the pixels that "
        "the decoder draws for a class that is in the image or not, as a percentage of the sum of a digit. "
        "Shaded: numbers of the paper, on 10 million pairs of MNIST.",
        marked=[len(rows) + 1, len(rows) + 2],
    )
    capsules = models[DYNAMIC]
    assert isinstance(capsules, CapsuleModel)
    draw_pairs(study, capsules, pairs)
    draw_all_classes(study, capsules, pairs)
    add_verdicts(study, results, copy_error, len(pairs))


def add_verdicts(study: Study, results: dict[str, dict[str, float]], copy_error: float, count: int) -> None:
    """Whether capsules separate the digits, are better than a CNN, and whether routing is the reason.

    Args:
        study: gets the verdicts.
        results: of `measure`, by network.
        copy_error: reconstruction error of the input image itself, in percent.
        count: test pairs.
    """
    routed, unrouted = results[DYNAMIC], results[UNIFORM]
    best = min(CNNS, key=lambda name: results[name]["error"])
    cnn = results[best]["error"]
    worse = significantly_higher(routed["error"], cnn, count)
    better = significantly_higher(cnn, routed["error"], count) or (False if worse else None)
    study.add_verdict(
        better if routed["reconstruction"] < copy_error else False,
        f"Capsules have {percent(routed['error'])} wrong pairs; a CNN like that of the paper with about as "
        f"many parameters has {percent(results[CONVOLUTIONAL]['error'])}, the convolutions of the capsules "
        f"with a dense layer {percent(results[DENSE]['error'])}, and with average pooling "
        f"{percent(results[POOLED]['error'])}. Each digit alone is reconstructed with an error of "
        f"{percent(routed['reconstruction'])}; the input image itself has {percent(copy_error)}."
        + (" The difference to the best CNN is within chance." if better is None else "")
        + " (Criterion: fewer than every CNN by more than chance.)",
    )
    study.add_verdict(
        significantly_higher(unrouted["error"], routed["error"], count),
        "With uniform coupling, which ignores agreement, capsules have "
        f"{percent(unrouted['error'])} wrong pairs and a reconstruction error of "
        f"{percent(unrouted['reconstruction'])}.",
        question="Is routing the reason?",
    )
    study.add_verdict(
        routed["absent"] < routed["present"] / 2,
        "For a digit that is not in the image, the decoder draws "
        f"{percent(routed['absent'])} of the brightness of a digit; for one that is in the image, "
        f"{percent(routed['present'])}. (Criterion: less than half.)",
        question="Does the decoder draw only digits that are in the image?",
    )


def load_network(study: Study, name: str) -> Model:
    """A network trained on overlapping digits."""
    return study.train(name, make_recipe(study, name))


def make_recipe(study: Study, name: str) -> Recipe:
    """How a network is trained; all see the same number of pairs."""
    recipe = load_recipe("multimnist-cnn" if name in CNNS else "multimnist-capsnet-small")
    if not study.quick:
        recipe = recipe.override(FULL)
    else:
        recipe = recipe.override(QUICK_CNN if name in CNNS else QUICK_CAPSULES)
    if name in HEADS:
        recipe = recipe.override([f'model={{name="{HEADS[name]}", options={{backbone="conv9"}}}}'])
    return recipe.override(['model.options.routing="uniform"']) if name == UNIFORM else recipe


def load_test_pairs(study: Study) -> ImageSet:
    """Overlapping test digits."""
    if study.quick:
        return load("multimnist", "test", source="digits", size=18, per_image=4)
    return load("multimnist", "test", data_dir=study.data_dir, per_image=1)


def measure(study: Study, name: str, model: Model, pairs: ImageSet) -> dict[str, float]:
    """Percentage of wrong pairs, and for capsules the reconstruction error and brightness in percent."""

    def compute() -> dict[str, float]:
        values = {"error": 100 * evaluate(model, pairs).error}
        if not isinstance(model, CapsuleModel):
            return values
        sample = pairs.select(torch.arange(min(len(pairs), 2000)))
        parts = parts_of(sample)
        reconstruction = reconstruct_all_classes(model, sample)
        present = torch.zeros(reconstruction.shape[:2], dtype=torch.bool).scatter(1, sample.labels, True)
        brightness = reconstruction.sum((2, 3)) / parts.sum((2, 3)).mean()
        of_labels = reconstruction.gather(
            1, sample.labels[:, :, None, None].expand(-1, -1, *reconstruction.shape[2:])
        )
        return values | {
            "reconstruction": 100 * float(reconstruction_error(of_labels, parts).mean()),
            "present": 100 * float(brightness[present].mean()),
            "absent": 100 * float(brightness[~present].mean()),
        }

    values = study.cached(f"errors and reconstructions of {name}", compute)
    for key, value in values.items():
        study.add_number(f"{name}.{key}", value)
    return values


def pixels_of(pairs: ImageSet) -> Tensor:
    """Input images of the networks, `[N, 1, H, W]` in 0..1."""
    return pairs.images.float() / 255


def parts_of(pairs: ImageSet) -> Tensor:
    """The two digits of each pair alone, `[N, 2, H, W]` in 0..1."""
    return pairs.metadata["parts"].float() / 255


@torch.no_grad()
def reconstruct_all_classes(model: Model, pairs: ImageSet) -> Tensor:
    """Reconstructions of all classes of each image, each from its own capsule: `[N, classes, H, W]`."""
    capsules = predict(model, pixels_of(pairs)).capsules
    assert capsules is not None
    classes = [torch.full((len(pairs),), label) for label in range(model.num_classes)]
    return torch.cat([model.reconstruct(capsules, label) for label in classes], dim=1)


def reconstruction_error(reconstruction: Tensor, parts: Tensor) -> Tensor:
    """Squared difference as a fraction of the squared pixels of the digit, for each digit: `[N, 2]`.

    >>> digit = torch.ones(1, 2, 4, 4)
    >>> reconstruction_error(digit / 2, digit)
    tensor([[0.2500, 0.2500]])
    """
    return (reconstruction - parts).square().sum((2, 3)) / parts.square().sum((2, 3)).clamp(min=1e-12)


def show_image(ax: Any, image: Any, title: str, **options: Any) -> None:
    """Show an image with a title, without a frame."""
    ax.imshow(image, interpolation="nearest")
    ax.set_title(title, loc="center", **options)
    ax.set(xticks=[], yticks=[])
    hide_frame(ax)


def draw_pairs(study: Study, model: Model, pairs: ImageSet, count: int = 8) -> None:
    """Draw pairs, their two digits, and the reconstructions from the two longest capsules."""
    sample = pairs.select(torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1])
    scores = predict(model, pixels_of(sample)).scores
    parts, reconstruction = parts_of(sample), reconstruct_all_classes(model, sample)
    figure = new_figure(9.6, 4.6)
    panels = add_axes(figure, 3, count)
    for column in range(count):
        true = sample.labels[column].tolist()
        best = in_order_of(scores[column].topk(2).indices.tolist(), true)
        images = [
            color_overlay(pixels_of(sample)[column, 0]),
            color_overlay(parts[column, 0], parts[column, 1], colors=PAIR_COLORS),
            color_overlay(
                reconstruction[column, best[0]], reconstruction[column, best[1]], colors=PAIR_COLORS
            ),
        ]
        titles = ["", "{} + {}".format(*true), "{} + {}".format(*best) + " ✗" * (set(best) != set(true))]
        for row, (image, title) in enumerate(zip(images, titles)):
            ax = panels[row * count + column]
            show_image(ax, image, title, fontsize=9)
            if column == 0:
                label = ("input", "digits", "reconstruction")[row]
                ax.set_ylabel(label, rotation=0, ha="right", va="center")
    study.add_figure(
        "pairs",
        figure,
        caption="Top: the input. Middle: its two digits in two colors. Bottom: the reconstructions from the "
        "two longest capsules, each from its own pose alone. Pixels of both digits appear in both "
        "reconstructions. A cross marks a wrong pair.",
    )


def in_order_of(predicted: list[int], true: list[int]) -> list[int]:
    """Two predicted classes in the order of the true ones, so that a digit has the same color in all rows.

    >>> in_order_of([7, 4], [4, 7]), in_order_of([3, 4], [4, 7]), in_order_of([1, 2], [4, 7])
    ([4, 7], [4, 3], [1, 2])
    """
    swapped = predicted[::-1]
    matches, swapped_matches = (sum(map(int.__eq__, each, true)) for each in (predicted, swapped))
    return swapped if swapped_matches > matches else predicted


def draw_all_classes(study: Study, model: Model, pairs: ImageSet, count: int = 4) -> None:
    """Draw a few pairs, and the reconstruction of each of the ten classes."""
    sample = pairs.select(torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1])
    lengths, reconstruction = predict(model, pixels_of(sample)).scores, reconstruct_all_classes(model, sample)
    figure = new_figure(9.6, 1.05 * count + 0.2)
    columns = 1 + reconstruction.shape[1]
    panels = add_axes(figure, count, columns)
    for row in range(count):
        first, *others = panels[row * columns : (row + 1) * columns]
        show_image(first, color_overlay(pixels_of(sample)[row, 0]), "input", fontsize=8)
        for label, ax in enumerate(others):
            present = label in sample.labels[row].tolist()
            image = color_overlay(reconstruction[row, label], colors=[BLUE] if present else [DARK])
            title = f"{label}: {float(lengths[row, label]):.2f}"
            show_image(ax, image, title, fontsize=8, weight="bold" if present else "normal")
    study.add_figure(
        "all_classes",
        figure,
        caption="The reconstruction from each of the ten class capsules, with the length of the capsule; "
        "blue: the two digits in the image. The others show what the decoder draws for a digit that is not "
        "in the image: usually a blur if the capsule is short, and strokes if it is long. The last column "
        "of the table is the mean brightness of these.",
    )


CLAIM = Claim(
    name="overlap",
    claim="routing separates highly overlapping digits",
    source="Sabour, Frosst, Hinton, “Dynamic Routing Between Capsules” (2017), section 6 and figure 5",
    data="overlapping pairs of MNIST digits",
    quick_data="overlapping pairs of scikit-learn's digits",
    minutes=95,
    run=run,
)
