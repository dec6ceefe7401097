"""The trained networks that the views use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchcaps import models
from torchcaps.data.preprocess import Preprocess
from torchcaps.lab.schemas import ModelInfo
from torchcaps.models import Model
from torchcaps.training import ModelCard, RunError, load_weights

ModelKey = tuple[str, str]

# (model, data set) of every network that a view uses.
REQUIRED_MODELS: tuple[ModelKey, ...] = (
    ("capsnet_small", "mnist"),
    ("matrix_capsnet_small", "mnist"),
    ("shared_capsnet", "mnist"),
    ("pooled_cnn", "mnist"),
    ("capsnet_small", "multimnist"),
    ("capsnet_cnn", "multimnist"),
    ("matrix_capsnet_small", "toys"),
    ("pooled_cnn", "toys"),
    ("parts_capsnet", "shapes"),
    ("capsule_head", "mnist-twin-dynamic"),
    ("capsule_head", "mnist-twin-em"),
    ("capsule_head", "mnist-twin-kmeans"),
    ("capsule_head", "mnist-twin-heinsen"),
)


class MissingWeightsError(Exception):
    """The weights of a network are not installed."""


class LoadedModel:
    """A trained network together with its preprocessing.

    Args:
        model: the network.
        card: how to prepare its images, and its class names.
    """

    def __init__(self, model: Model, card: ModelCard) -> None:
        self.model, self.card = model.eval(), card
        self._preprocess = Preprocess.from_options(card.preprocess)

    def prepare(self, pixels: Sequence[Any] | Tensor) -> Tensor:
        """A batch of one image, preprocessed as for testing.

        Args:
            pixels: numbers from 0 to 1, `[C, H, W]` or `[H, W]`; rounded to 8 bits, as in image files.
        """
        image = torch.as_tensor(pixels, dtype=torch.float32)
        raw = (image * 255).round().to(torch.uint8)
        return self._preprocess.test(raw.reshape(1, -1, *raw.shape[-2:]))

    def info(self, data: str) -> ModelInfo:
        """Name, size and test metrics of this network, trained on `data`."""
        metrics = self.card.facts.get("test") or {}
        return ModelInfo(
            model=self.card.model,
            data=data,
            num_params=sum(parameter.numel() for parameter in self.model.parameters()),
            metrics={
                name: round(value, 5) for name, value in metrics.items() if isinstance(value, (int, float))
            },
        )


class ModelStore:
    """Trained networks by model and data set; a missing one only affects the views that use it."""

    def __init__(self, networks: Mapping[ModelKey, tuple[Model, ModelCard]]) -> None:
        self._networks = {key: LoadedModel(*network) for key, network in networks.items()}

    def __getitem__(self, key: ModelKey) -> LoadedModel:
        if key not in self._networks:
            raise MissingWeightsError(
                f"The weights of {key[0]} trained on {key[1]} are not installed. "
                "Reinstall torchcaps to get them."
            )
        return self._networks[key]

    def info(self) -> list[ModelInfo]:
        """Name, size and test metrics of every loaded network."""
        return [network.info(data) for (_, data), network in self._networks.items()]


def load_model_store() -> ModelStore:
    """Load the networks whose weights come with the package; those that cannot be loaded are left out."""
    networks = {}
    index = {(entry["model"], entry["data"]): entry for entry in models.list_pretrained()}
    for key in REQUIRED_MODELS:
        try:
            model, card = load_weights(models.pretrained_path(*key))
        except (ValueError, OSError, RunError):
            continue  # a view that needs it reports the missing weights
        entry = index.get(key, {})
        facts = {
            **card.facts,
            "test": entry.get("metrics", {}).get("test"),
            "data_options": entry.get("load", {}).get("options"),
        }
        networks[key] = model, replace(card, facts=facts)
    return ModelStore(networks)
