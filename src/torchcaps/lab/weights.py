from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchcaps import models
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import Model
from torchcaps.training import ModelCard, RunError, load_weights

Key = tuple[str, str]

# Everything that some view looks at: (model, data).
NEEDED: tuple[Key, ...] = (
    ("capsnet_small", "mnist"),
    ("shared_capsnet", "mnist"),
    ("pooled_cnn", "mnist"),
    ("capsnet_small", "multimnist"),
    ("capsnet_cnn", "multimnist"),
    ("matrix_capsnet_small", "toys"),
    ("pooled_cnn", "toys"),
)


class NoWeightsError(Exception):
    """A view asked for a network whose weights are not there."""


class Trained:
    """A trained network with its card: raw pixels in, images as it was trained on out.

    Args:
        model: the network.
        card: how its images are prepared, and what its classes are called.
    """

    def __init__(self, model: Model, card: ModelCard) -> None:
        self.model, self.card = model.eval(), card
        self._preprocess = Preprocess.from_options(card.preprocess)

    def prepare(self, pixels: Sequence[Any] | Tensor) -> Tensor:
        """A batch of one from numbers in 0..1, `[C, H, W]` or `[H, W]`, by way of the bytes of a picture."""
        image = torch.as_tensor(pixels, dtype=torch.float32)
        raw = (image * 255).round().to(torch.uint8)
        return self._preprocess.test(raw.reshape(1, -1, *raw.shape[-2:]))

    def describe(self, data: str) -> dict[str, Any]:
        """Name, size and test results, for the status."""
        found = self.card.facts.get("test") or {}
        metrics = {name: round(value, 5) for name, value in found.items() if isinstance(value, (int, float))}
        weights = sum(weight.numel() for weight in self.model.parameters())
        return {"model": self.card.model, "data": data, "weights": weights, "metrics": metrics}


class Shelf:
    """The networks the lab has, by model and data; a missing one is only missed by whoever asks for it."""

    def __init__(self, trained: Mapping[Key, tuple[Model, ModelCard]]) -> None:
        self._trained = {key: Trained(*pair) for key, pair in trained.items()}

    def __getitem__(self, key: Key) -> Trained:
        if key not in self._trained:
            raise NoWeightsError(
                f"The weights of {key[0]} trained on {key[1]} are missing; install torchcaps again for them."
            )
        return self._trained[key]

    def describe(self) -> list[dict[str, Any]]:
        """All that is there, for the status."""
        return [trained.describe(data) for (_, data), trained in self._trained.items()]


def load_shelf() -> Shelf:
    """The networks whose weights come with the package, as many as are there."""
    found = {}
    index = {(entry["model"], entry["data"]): entry for entry in models.list_pretrained()}
    for key in NEEDED:
        try:
            model, card = load_weights(models.pretrained_path(*key))
        except (ValueError, OSError, RunError):
            continue  # the status says what is there, and the view that needs it says what is not
        known = index.get(key, {})
        tested, options = known.get("metrics", {}).get("test"), known.get("load", {}).get("options")
        facts = {**card.facts, "test": tested, "data_options": options}
        found[key] = model, replace(card, facts=facts)
    return Shelf(found)


def as_numbers(values: Tensor, digits: int = 4) -> Any:
    """Nested lists of rounded numbers: JSON grows threefold with digits that no screen can show.

    >>> as_numbers(torch.tensor([[1 / 3, 1.0]]))
    [[0.3333, 1.0]]
    """
    return values.detach().double().numpy().round(digits).tolist()
