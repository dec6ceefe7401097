"""The trained networks that the views use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from torchcaps import models
from torchcaps._registry import suggest
from torchcaps.data.preprocess import Preprocess
from torchcaps.data.transforms import resize
from torchcaps.data.worlds.flat import SceneOptions
from torchcaps.data.worlds.flat.kinds import KINDS
from torchcaps.lab.schemas import ExampleInput, ModelInfo, SceneRanges
from torchcaps.models import Model, Output
from torchcaps.models.weights import load_file_into, read_card
from torchcaps.training import ModelCard, RunError, predict
from torchcaps.training.recipe import Recipe
from torchcaps.training.recipe.files import list_recipes

ModelKey = tuple[str, str]
# Losses that depend on differences of logits only.
ON_DIFFERENCES = ("cross_entropy", "spread")
MAX_MARGIN = 8  # pixels
WORLDS = ("shapes", "faces")

# (model, data set) of every network that a view uses; Compare uses all of them.
REQUIRED_MODELS: tuple[ModelKey, ...] = (
    ("capsnet_small", "mnist"),
    ("matrix_capsnet_small", "mnist"),
    ("shared_capsnet", "mnist"),
    ("pooled_cnn", "mnist"),
    ("capsnet_small", "multimnist"),
    ("capsnet_cnn", "multimnist"),
    ("matrix_capsnet_small", "toys"),
    ("pooled_cnn", "toys"),
    ("efficient_capsnet", "mnist"),
    ("capsnet_small", "fashion_mnist"),
    ("parts_capsnet", "shapes"),
    ("parts_capsnet", "faces"),
    ("parts_cnn", "shapes"),
    ("parts_cnn", "faces"),
    ("capsule_head", "mnist-twin-dynamic"),
    ("capsule_head", "mnist-twin-em"),
    ("capsule_head", "mnist-twin-kmeans"),
    ("capsule_head", "mnist-twin-heinsen"),
)


class MissingWeightsError(Exception):
    """The weights of a network are not installed."""

    def __init__(self, model: str, data: str) -> None:
        super().__init__(
            f"The weights of {model} trained on {data} are not installed. Reinstall torchcaps to get them."
        )
        self.model, self.data = model, data


class LoadedModel:
    """A trained network together with its preprocessing.

    Args:
        model: the network.
        card: how to prepare its images, and its class names.
        data: what it was trained on.
        name: by which the page asks for it.
        loss: that it was trained with, if that is known.
        test_images: gives some of its test images, if there are any beside those of the package.
    """

    def __init__(
        self,
        model: Model,
        card: ModelCard,
        data: str = "",
        *,
        name: str = "",
        loss: str | None = None,
        test_images: Callable[[], list[ExampleInput]] | None = None,
    ) -> None:
        self.model, self.card, self.data = model.eval(), card, data
        self.id = name or f"{card.model}-{data}"
        self.loss, self.test_images = loss, test_images
        self.preprocess = Preprocess.from_options(card.preprocess)

    def prepare(self, pixels: Sequence[Any] | Tensor) -> Tensor:
        """A batch of one image, preprocessed as for testing.

        Args:
            pixels: numbers from 0 to 1, `[C, H, W]` or `[H, W]`; rounded to 8 bits, as in image files.
        """
        image = torch.as_tensor(pixels, dtype=torch.float32)
        raw = (image * 255).round().to(torch.uint8)
        return self.preprocess.test(raw.reshape(1, -1, *raw.shape[-2:]))

    def adapt(self, image: Tensor) -> Tensor:
        """An image, uint8 `[C, H, W]`, in a size that the network reads.

        A slightly smaller one gets a dark margin, as a digit has in MultiMNIST; others are scaled.
        """
        height, width = self.card.image_size
        if self.preprocess.crop or self.preprocess.resize or self.model.any_size:
            height, width = max(height, image.shape[1]), max(width, image.shape[2])
        below, beside = height - image.shape[1], width - image.shape[2]
        if 0 <= min(below, beside) <= max(below, beside) <= MAX_MARGIN:
            margins = (beside // 2, beside - beside // 2, below // 2, below - below // 2)
            return torch.nn.functional.pad(image, margins)
        return resize(image.unsqueeze(0), (height, width))[0]

    def shown_scores(self, output: Output) -> Tensor:
        """What the page shows as scores, `[B, classes]`.

        A loss that depends on differences of logits only leaves all activations of capsules near 1; then the
        softmax of the logits is the meaningful score.
        """
        return output.logits.softmax(1) if self.loss in ON_DIFFERENCES else output.scores

    @cached_property
    def scores(self) -> Literal["lengths", "independent", "softmax"]:
        """What the scores are: lengths of capsules, other numbers of one class each, or shares of 1."""
        image = torch.zeros(1, self.card.in_channels, *self.card.image_size)
        output = predict(self.model, self.preprocess.test(image))
        shown = self.shown_scores(output)
        if torch.allclose(shown, output.logits.softmax(1), atol=1e-4):
            return "softmax"
        if output.capsules is not None and torch.allclose(
            output.capsules.pose.norm(dim=-1), shown, atol=1e-3
        ):
            return "lengths"
        return "independent"

    def info(self) -> ModelInfo:
        """Name, size, test metrics and more of this network."""
        metrics = self.card.facts.get("test") or {}
        recipe = self.card.facts.get("recipe")
        return ModelInfo(
            id=self.id,
            model=self.card.model,
            data=self.data,
            recipe=recipe if isinstance(recipe, str) else None,
            num_params=sum(parameter.numel() for parameter in self.model.parameters()),
            metrics={
                name: round(value, 5) for name, value in metrics.items() if isinstance(value, (int, float))
            },
            classes=list(self.card.classes),
            in_channels=self.card.in_channels,
            image_size=list(self.card.image_size),
            decoder=self.model.decoder is not None,
            scores=self.scores,
            tested=tested_scenes(self.data, self.card),
        )


class ModelStore:
    """Trained networks by model and data set; a missing one only affects the views that use it.

    Args:
        networks: those that come with the package.
    """

    def __init__(self, networks: Mapping[ModelKey, tuple[Model, ModelCard]]) -> None:
        self._networks = {
            key: LoadedModel(*network, key[1], loss=loss_of(network[1])) for key, network in networks.items()
        }
        self.run: LoadedModel | None = None

    def __getitem__(self, key: ModelKey) -> LoadedModel:
        if key not in self._networks:
            raise MissingWeightsError(*key)
        return self._networks[key]

    def get(self, key: ModelKey) -> LoadedModel | None:
        """A network, or `None` if its weights are not installed."""
        return self._networks.get(key)

    def all(self) -> list[LoadedModel]:
        """All networks, that of the run last."""
        return [*self._networks.values(), *([self.run] if self.run else [])]

    def by_id(self, name: str) -> LoadedModel:
        """A network by the name that `info` gives it.

        Raises:
            ValueError: there is no such network.
        """
        for network in self.all():
            if network.id == name:
                return network
        raise ValueError(f"there is no network {name!r}: {suggest(name, [each.id for each in self.all()])}")

    def info(self) -> list[ModelInfo]:
        """Name, size and test metrics of every loaded network."""
        return [network.info() for network in self.all()]


def loss_of(card: ModelCard) -> str | None:
    """The loss in the recipe that a card names, if it comes with torchcaps."""
    path = list_recipes().get(str(card.facts.get("recipe")))
    return None if path is None else Recipe.from_file(path).loss.name


def tested_scenes(data: str, card: ModelCard) -> SceneRanges | None:
    """The scenes on which the errors of a network for parts and wholes were measured, if that is known."""
    options = card.facts.get("data_options")
    if data not in WORLDS or options is None:
        return None
    single, scenes = KINDS["single"], SceneOptions(**options)
    ranges = scenes.ranges(single.scale, single.offset, single.reach(scenes))
    return SceneRanges(size=scenes.size, scale=list(ranges.scale), offset=list(ranges.offset))


def load_model_store() -> ModelStore:
    """Load the networks whose weights come with the package; those that cannot be loaded are left out."""
    networks = {}
    index = {(entry["model"], entry["data"]): entry for entry in models.list_pretrained()}
    for key in REQUIRED_MODELS:
        try:
            path = models.pretrained_path(*key)
            # The digest of the file is right, so that its description need not be compared with its tensors
            # before memory is taken, as for files from elsewhere: that takes longer than all else here.
            card = read_card(path)
            model = card.build()
            load_file_into(model, path)
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
