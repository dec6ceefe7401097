"""What is measured of a trained network, in percent."""

from __future__ import annotations

import torch

from torchcaps.attacks import fgsm, input_gradient, pgd, zero_gradient_share
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.compare.forms import PartSettings
from torchcaps.models import Model
from torchcaps.models.base import evaluating
from torchcaps.training.metrics import all_correct

BATCH = 250


def measure(model: Model, tests: dict[str, ImageSet], settings: PartSettings) -> dict[str, float | None]:
    """All tests of a part; `None` for images that a network cannot read because of their size.

    Args:
        model: a trained network.
        tests: test images by name, see `PartData`.
        settings: of the part.
    """
    values: dict[str, float | None] = {}
    for name, images in tests.items():
        readable = model.any_size or images.image_size == model.image_size
        values[name] = accuracy(model, images) if readable else None
    if settings.attacked:
        values |= attack(model, tests["accuracy"], settings)
    return values


@torch.no_grad()
def accuracy(model: Model, images: ImageSet) -> float:
    """How many images have all their labels right, by the order of the logits.

    Scores have the same order, but many of them are rounded to exactly 1 in float32.
    """
    right = 0
    device = next(model.parameters()).device
    with evaluating(model):
        for pixels, labels in zip(images.images.split(BATCH), images.labels.split(BATCH)):
            logits = model(pixels.to(device).float() / 255).logits
            right += int(all_correct(logits, labels.to(device)).sum())
    return 100 * right / len(images)


def attack(model: Model, images: ImageSet, settings: PartSettings) -> dict[str, float | None]:
    """Accuracy on the first images after FGSM and after PGD, and how often an attack has no direction.

    `zero_gradients` is the percentage of images whose gradient is 0 everywhere: there an attack fails without
    showing that the network is robust.
    """
    few = images.select(torch.arange(min(settings.attacked, len(images))))
    device = next(model.parameters()).device
    pixels, labels = few.images.to(device).float() / 255, few.labels.to(device)
    generator = torch.Generator().manual_seed(0)
    changed: dict[str, list[torch.Tensor]] = {"fgsm": [], "pgd": []}
    gradients = []
    for part, truth in zip(pixels.split(BATCH), labels.split(BATCH)):
        gradients.append(input_gradient(model, part, truth))
        changed["fgsm"].append(fgsm(model, part, truth, settings.epsilon))
        changed["pgd"].append(
            pgd(
                model,
                part,
                truth,
                settings.epsilon,
                steps=settings.pgd_steps,
                restarts=settings.restarts,
                generator=generator,
            )
        )
    values: dict[str, float | None] = {"zero_gradients": 100 * zero_gradient_share(torch.cat(gradients))}
    with evaluating(model), torch.no_grad():
        for name, parts in changed.items():
            right = [model(part).logits.argmax(1) == truth for part, truth in zip(parts, labels.split(BATCH))]
            values[name] = 100 * float(torch.cat(right).double().mean())
    return values
