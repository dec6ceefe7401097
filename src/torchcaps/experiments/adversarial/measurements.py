"""All measurements of one network: its gradients, and its accuracy under each attack at each ε."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.attacks import bim, fgsm, gradient_size, input_gradient, pgd, zero_gradient_share
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.framework.study import Study
from torchcaps.models import Model, Output
from torchcaps.training import predict

# How far a pixel in 0..1 may change. PGD, the strongest and slowest attack, is run at the second alone.
QUICK_EPSILONS, EPSILONS = (0.05, 0.1, 0.2, 0.3), (0.01, 0.02, 0.05, 0.1, 0.2)
# Title and vertical axis of the panel of each attack.
PANELS = {
    "fgsm": ("FGSM", "accuracy (%)"),
    "bim": ("BIM, and PGD (squares)", "accuracy (%)"),
    "targeted": ("targeted FGSM", "success (%)"),
    "transfer": ("black box", "accuracy (%)"),
}
# PGD that climbs the cross-entropy, and PGD that climbs the margin between logits.
PGD = {"pgd": "cross_entropy", "pgd_logits": "margin"}


class PreprocessedModel(Model):
    """A network that preprocesses its images itself, so that ε is a pixel value in 0..1 for all networks.

    Args:
        model: the network.
        preprocess: preprocessing of its images.
        image_size: height and width before preprocessing.
    """

    def __init__(self, model: Model, preprocess: Preprocess, image_size: tuple[int, int]) -> None:
        super().__init__(num_classes=model.num_classes, in_channels=model.in_channels, image_size=image_size)
        self.model, self.preprocess = model, preprocess

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]` in 0..1."""
        return self.model(self.preprocess.test(images))


class Strength(NamedTuple):
    """How hard PGD tries.

    Attributes:
        steps: from each starting point.
        restarts: random starting points.
        images: number of images that it is run on.
    """

    steps: int
    restarts: int
    images: int


def strength(study: Study) -> Strength:
    """The strength of PGD in this form."""
    return Strength(steps=10, restarts=2, images=60) if study.quick else Strength(20, 3, 250)


def measure_network(
    study: Study, name: str, model: Model, surrogate: Model, images: Tensor, labels: Tensor
) -> dict[str, Any]:
    """All measurements of one network, in percent except the size of gradients.

    Args:
        study: caches the measurements.
        name: of the network.
        model: the network.
        surrogate: another network, for the black-box attack.
        images: `[N, C, H, W]` in 0..1.
        labels: `[N]`.

    Returns:
        Numbers for unchanged images, for each attack a list over ε, and the two kinds of PGD at the second ε.
    """
    epsilons = QUICK_EPSILONS if study.quick else EPSILONS
    results: dict[str, Any] = {"epsilon": list(epsilons), "count": len(labels)}
    results |= study.cached(f"gradients of {name}", partial(measure_gradients, model, images, labels))
    for kind in PANELS:
        results[kind] = []
    for epsilon in epsilons:
        attacks = partial(run_attacks, epsilon, model, surrogate, images, labels)
        # Cached one by one, so that a study that is stopped continues with the next ε.
        for kind, value in study.cached(f"attacks on {name} at ε = {epsilon}", attacks).items():
            results[kind].append(value)
    tries = strength(study)
    some = images[: tries.images], labels[: tries.images]
    for kind in PGD:
        step = partial(run_pgd, kind, model, *some, epsilons[1], tries, study.seed)
        results |= study.cached(f"{kind} on {name}", step)
    return results


def measure_gradients(model: Model, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy on unchanged images, share of gradients that are exactly 0 in percent, and their size."""
    batches = list(zip(images.split(100), labels.split(100)))
    gradient = torch.cat([input_gradient(model, *batch) for batch in batches])
    size = torch.cat([gradient_size(model, *batch) for batch in batches])
    return {
        "clean": accuracy(model, images, labels),
        "zero_images": 100 * zero_gradient_share(gradient),
        "zero_pixels": 100 * float((gradient == 0).double().mean()),
        # The median over images: those that are nearly wrong have much larger gradients than all others.
        "gradient": float(size.median()),
    }


def run_attacks(
    epsilon: float, model: Model, surrogate: Model, images: Tensor, labels: Tensor
) -> dict[str, float]:
    """The result of each attack at one ε."""
    return {
        "fgsm": accuracy(model, fgsm(model, images, labels, epsilon), labels),
        "bim": accuracy(model, bim(model, images, labels, epsilon), labels),
        "targeted": targeted_success(model, images, labels, epsilon),
        "transfer": accuracy(model, fgsm(surrogate, images, labels, epsilon), labels),
    }


def run_pgd(
    kind: str, model: Model, images: Tensor, labels: Tensor, epsilon: float, tries: Strength, seed: int
) -> dict[str, float]:
    """Accuracy in percent under one kind of PGD."""
    changed = pgd(
        model,
        images,
        labels,
        epsilon,
        steps=tries.steps,
        restarts=tries.restarts,
        loss=PGD[kind],
        generator=torch.Generator().manual_seed(seed),
    )
    return {kind: accuracy(model, changed, labels)}


def measure_transfer(
    source: Model, target: Model, images: Tensor, labels: Tensor, epsilons: Sequence[float]
) -> dict[str, list[float]]:
    """Accuracy of `target` in percent on images that were changed by FGSM to attack `source`, by ε."""
    return {
        "accuracy": [accuracy(target, fgsm(source, images, labels, epsilon), labels) for epsilon in epsilons]
    }


def accuracy(model: Model, images: Tensor, labels: Tensor) -> float:
    """Accuracy in percent."""
    return 100 * float((predict(model, images).scores.argmax(1) == labels).double().mean())


def targeted_success(model: Model, images: Tensor, labels: Tensor, epsilon: float) -> float:
    """How often, in percent, a changed image is classified as a given wrong class; mean over classes."""
    success = []
    for step in range(1, model.num_classes):
        target = (labels + step) % model.num_classes
        success.append(accuracy(model, fgsm(model, images, target, epsilon, targeted=True), target))
    return sum(success) / len(success)
