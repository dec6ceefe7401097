"""The fast gradient sign method on twins: the same convolutions under capsules and under pooling."""

from __future__ import annotations

from typing import Any

import torch

from torchcaps.attacks import fgsm
from torchcaps.lab.schemas import AttackQuestion
from torchcaps.lab.weights import Shelf, Trained, as_numbers
from torchcaps.training import predict

CAPSULES = ("shared_capsnet", "mnist")
CNN = ("pooled_cnn", "mnist")


def attack(shelf: Shelf, asked: AttackQuestion) -> dict[str, Any]:
    """Push the image away from what each network takes it for, by up to ε per pixel."""
    capsules, cnn = shelf[CAPSULES], shelf[CNN]
    return {"capsules": attacked(capsules, asked), "cnn": attacked(cnn, asked)}


def attacked(trained: Trained, asked: AttackQuestion) -> dict[str, Any]:
    """A network's verdict before and after; the true class is not known, so its own verdict stands in."""
    image = trained.prepare(asked.image)
    before = predict(trained.model, image).scores.argmax(1)
    changed = fgsm(trained.model, image, before, asked.epsilon)
    scores = predict(trained.model, changed).scores[0]
    # What is left of the sign where a pixel is black or white already and can go no further.
    moved = (changed - image) / max(asked.epsilon, 1e-6)
    return {
        "before": int(before),
        "after": int(scores.argmax()),
        "scores": as_numbers(scores),
        "image": as_numbers(changed[0, 0]),
        "perturbation": as_numbers(torch.clamp(moved[0, 0], -1, 1)),
    }
