"""Two digits over each other: capsules tell them apart and draw each, a CNN names two."""

from __future__ import annotations

from typing import Any

import torch

from torchcaps.lab.looking import class_capsules
from torchcaps.lab.schemas import OverlapQuestion
from torchcaps.lab.weights import Shelf, as_numbers
from torchcaps.training import predict

CAPSULES = ("capsnet_small", "multimnist")
CNN = ("capsnet_cnn", "multimnist")


@torch.no_grad()
def overlap(shelf: Shelf, asked: OverlapQuestion) -> dict[str, Any]:
    """The two best classes of each network, and the two best capsules drawn one by one."""
    trained, rival = shelf[CAPSULES], shelf[CNN]
    output = predict(trained.model, trained.prepare(asked.image))
    scores = predict(rival.model, rival.prepare(asked.image)).scores[0]
    capsules = class_capsules(output)
    best = output.scores[0].topk(2).indices
    drawn = [trained.model.reconstruct(capsules, target.reshape(1))[0, 0] for target in best]
    return {
        "capsules": {
            "best": best.tolist(),
            "lengths": as_numbers(output.scores[0]),
            "reconstructions": [as_numbers(image) for image in drawn],
        },
        "cnn": {"best": scores.topk(2).indices.tolist(), "scores": as_numbers(scores)},
    }
