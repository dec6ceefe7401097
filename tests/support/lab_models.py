"""Networks with random weights, of the shapes that the lab's views expect."""

from __future__ import annotations

import torch

from torchcaps.lab.model_store import ModelStore
from torchcaps.training import ModelCard

DIGITS = tuple(str(digit) for digit in range(10))
TOYS = ("animal", "human", "plane", "truck", "car")
WHOLES = ("house", "boat", "fish", "ice cream", "tree", "rocket", "truck", "robot")
FACES = ("face", "bicycle", "boat", "snowman")
SMALL_CNN = {"channels": [4, 4, 4], "hidden": [8, 8]}
CROP = {"standardize": True, "crop": 32}

TWINS = {"dynamic": ("vector", 8), "em": ("matrix", 16), "kmeans": ("vector", 8), "heinsen": ("matrix", 16)}


def twin(routing: str) -> ModelCard:
    pose, size = TWINS[routing]
    options = {
        "backbone": "preact",
        "types": 8,
        "pose": pose,
        "pose_dim": size,
        "class_layer": "grid",
        "routing": routing,
    }
    return ModelCard("capsule_head", options, 10, 1, (24, 24), DIGITS, {"crop": 24})


CARDS = {
    ("capsnet_small", "mnist"): ModelCard("capsnet_small", {}, 10, 1, (28, 28), DIGITS),
    ("matrix_capsnet_small", "mnist"): ModelCard("matrix_capsnet_small", {}, 10, 1, (28, 28), DIGITS),
    ("shared_capsnet", "mnist"): ModelCard("shared_capsnet", {}, 10, 1, (28, 28), DIGITS),
    ("pooled_cnn", "mnist"): ModelCard("pooled_cnn", {}, 10, 1, (28, 28), DIGITS),
    ("capsnet_small", "multimnist"): ModelCard("capsnet_small", {}, 10, 1, (36, 36), DIGITS),
    ("capsnet_cnn", "multimnist"): ModelCard("capsnet_cnn", SMALL_CNN, 10, 1, (36, 36), DIGITS),
    ("matrix_capsnet_small", "toys"): ModelCard("matrix_capsnet_small", {}, 5, 2, (32, 32), TOYS, CROP),
    ("pooled_cnn", "toys"): ModelCard("pooled_cnn", {}, 5, 2, (32, 32), TOYS, CROP),
    ("efficient_capsnet", "mnist"): ModelCard("efficient_capsnet", {}, 10, 1, (28, 28), DIGITS),
    ("capsnet_small", "fashion_mnist"): ModelCard("capsnet_small", {}, 10, 1, (28, 28), DIGITS),
    ("parts_capsnet", "shapes"): ModelCard("parts_capsnet", {"groups": 6}, 8, 1, (64, 64), WHOLES),
    ("parts_capsnet", "faces"): ModelCard("parts_capsnet", {}, 4, 1, (64, 64), FACES),
    ("parts_cnn", "shapes"): ModelCard("parts_cnn", {"channels": 4}, 8, 1, (96, 96), WHOLES),
    ("parts_cnn", "faces"): ModelCard("parts_cnn", {"channels": 4}, 4, 1, (96, 96), FACES),
    **{("capsule_head", f"mnist-twin-{routing}"): twin(routing) for routing in TWINS},
}


def untrained_store() -> ModelStore:
    """All networks of the lab, untrained, with the same weights on every call."""
    torch.manual_seed(0)
    return ModelStore({key: (card.build(), card) for key, card in CARDS.items()})
