"""All measurements of one network: its gradients, and its accuracy under each attack at each ε."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchcaps.attacks import bim, fgsm, input_gradient, pgd, zero_gradient_share
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.framework.study import Study
from torchcaps.models import Model, Output
from torchcaps.training import predict

# How far a pixel in 0..1 may change. PGD, the strongest and slowest attack, is run at the second and third.
QUICK_EPSILONS, EPSILONS = (0.05, 0.1, 0.2, 0.3), (0.01, 0.02, 0.05, 0.1, 0.2)
# Title and vertical axis of the panel of each attack.
PANELS = {
    "fgsm": ("FGSM", "accuracy (%)"),
    "bim": ("BIM, and PGD (dashed)", "accuracy (%)"),
    "targeted": ("targeted FGSM", "success (%)"),
    "transfer": ("black box", "accuracy (%)"),
}


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


def measure_network(
    study: Study, name: str, model: Model, surrogate: Model, images: Tensor, labels: Tensor
) -> dict[str, Any]:
    """All measurements of one network, in percent.

    Args:
        study: caches the measurements.
        name: of the network.
        model: the network.
        surrogate: another network, for the black-box attack.
        images: `[N, C, H, W]` in 0..1.
        labels: `[N]`.

    Returns:
        Numbers for unchanged images, and for each attack a list over ε; `pgd` is `None` where it was not run.
    """
    epsilons = QUICK_EPSILONS if study.quick else EPSILONS
    results: dict[str, Any] = {"epsilon": list(epsilons), "count": len(labels)}
    results |= study.cached(f"gradients of {name}", partial(measure_gradients, model, images, labels))
    for kind in (*PANELS, "pgd"):
        results[kind] = []
    for epsilon in epsilons:
        steps = (20 if study.quick else 40) if epsilon in epsilons[1:3] else 0
        generator = torch.Generator().manual_seed(study.seed)
        attacks = partial(run_attacks, epsilon, model, surrogate, images, labels, steps, generator)
        # Cached one by one, so that a study that is stopped continues with the next ε.
        for kind, value in study.cached(f"attacks on {name} at ε = {epsilon}", attacks).items():
            results[kind].append(value)
    return results


def measure_gradients(model: Model, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy on unchanged images, and how much of the input gradient is exactly 0, in percent."""
    batches = zip(images.split(100), labels.split(100))
    gradient = torch.cat([input_gradient(model, *batch) for batch in batches])
    return {
        "clean": accuracy(model, images, labels),
        "zero_images": 100 * zero_gradient_share(gradient),
        "zero_pixels": 100 * float((gradient == 0).double().mean()),
    }


def run_attacks(
    epsilon: float,
    model: Model,
    surrogate: Model,
    images: Tensor,
    labels: Tensor,
    pgd_steps: int,
    generator: torch.Generator,
) -> dict[str, float | None]:
    """The result of each attack at one ε; PGD is run only if `pgd_steps` is not 0."""
    pgd_accuracy = None
    if pgd_steps:
        changed = pgd(model, images, labels, epsilon, steps=pgd_steps, generator=generator)
        pgd_accuracy = accuracy(model, changed, labels)
    return {
        "fgsm": accuracy(model, fgsm(model, images, labels, epsilon), labels),
        "bim": accuracy(model, bim(model, images, labels, epsilon), labels),
        "targeted": targeted_success(model, images, labels, epsilon),
        "transfer": accuracy(model, fgsm(surrogate, images, labels, epsilon), labels),
        "pgd": pgd_accuracy,
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
