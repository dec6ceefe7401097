"""What is done to each network: attacks at every ε, and how often it is still right."""

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

# How far a pixel may go, of 0..1, and at which of these the strongest and slowest attack is tried.
QUICK_EPSILONS, EPSILONS = (0.05, 0.1, 0.2, 0.3), (0.01, 0.02, 0.05, 0.1, 0.2)
PANELS = {
    "fgsm": ("FGSM", "accuracy (%)"),
    "bim": ("BIM, and PGD dashed", "accuracy (%)"),
    "targeted": ("FGSM towards a class", "success (%)"),
    "transfer": ("black box", "accuracy (%)"),
}


class Seen(Model):
    """A network with the preparation of its images inside, so that ε counts brightness, 0..1, for all alike.

    Args:
        model: the network.
        preprocess: what its images go through.
        image_size: height and width before that.
    """

    def __init__(self, model: Model, preprocess: Preprocess, image_size: tuple[int, int]) -> None:
        super().__init__(num_classes=model.num_classes, in_channels=model.in_channels, image_size=image_size)
        self.model, self.preprocess = model, preprocess

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]` in 0..1."""
        return self.model(self.preprocess.test(images))


def attack(
    study: Study, name: str, model: Model, surrogate: Model, images: Tensor, labels: Tensor
) -> dict[str, Any]:
    """All figures of one network, in percent; lists go along ε, `pgd` is None where it was not tried."""
    epsilons = QUICK_EPSILONS if study.quick else EPSILONS
    found: dict[str, Any] = {"epsilon": list(epsilons), "count": len(labels)}
    found |= study.cached(f"slopes of {name}", partial(slopes, model, images, labels))
    for kind in (*PANELS, "pgd"):
        found[kind] = []
    for epsilon in epsilons:
        steps = (20 if study.quick else 40) if epsilon in epsilons[1:3] else 0
        generator = torch.Generator().manual_seed(study.seed)
        attacks = partial(attack_at, epsilon, model, surrogate, images, labels, steps, generator)
        # Kept one by one: a run that is stopped among them goes on with the next.
        for kind, value in study.cached(f"attacks on {name} at ε = {epsilon}", attacks).items():
            found[kind].append(value)
    return found


def slopes(model: Model, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy on unchanged images, and how much of what an attack follows is exactly 0, in percent."""
    parts = zip(images.split(100), labels.split(100))
    gradient = torch.cat([input_gradient(model, *part) for part in parts])
    return {
        "clean": right(model, images, labels),
        "zero_images": 100 * zero_gradient_share(gradient),
        "zero_pixels": 100 * float((gradient == 0).double().mean()),
    }


def attack_at(
    epsilon: float,
    model: Model,
    surrogate: Model,
    images: Tensor,
    labels: Tensor,
    pgd_steps: int,
    generator: torch.Generator,
) -> dict[str, float | None]:
    """What each attack comes to at one ε; PGD, the slowest, only if it is given steps."""
    thorough = None
    if pgd_steps:
        changed = pgd(model, images, labels, epsilon, steps=pgd_steps, generator=generator)
        thorough = right(model, changed, labels)
    return {
        "fgsm": right(model, fgsm(model, images, labels, epsilon), labels),
        "bim": right(model, bim(model, images, labels, epsilon), labels),
        "targeted": targeted_success(model, images, labels, epsilon),
        "transfer": right(model, fgsm(surrogate, images, labels, epsilon), labels),
        "pgd": thorough,
    }


def right(model: Model, images: Tensor, labels: Tensor) -> float:
    """Accuracy in percent."""
    return 100 * float((predict(model, images).scores.argmax(1) == labels).double().mean())


def targeted_success(model: Model, images: Tensor, labels: Tensor, epsilon: float) -> float:
    """How often, in percent, an image can be made to pass for a class that it is not; mean over classes."""
    took = []
    for step in range(1, model.num_classes):
        feigned = (labels + step) % model.num_classes
        took.append(right(model, fgsm(model, images, feigned, epsilon, targeted=True), feigned))
    return sum(took) / len(took)
