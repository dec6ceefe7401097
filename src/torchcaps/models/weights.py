"""A trained model as one file: weights in safetensors, and in its header all that is needed to use them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from torchcaps._files import replaced_on_success
from torchcaps.errors import RunError
from torchcaps.models.base import Model
from torchcaps.models.registry import create_model

# How the card names a model that is not registered: its class comes after this.
OBJECT = "object:"


@dataclass(frozen=True)
class ModelCard:
    """What must be known to use some weights: how to build the model, and how to prepare its images.

    - `background`: mean brightness, 0..1, of the border of its training images, to tell ink from paper.
    - `facts`: whatever else is worth keeping, such as the step and the metrics.
    """

    model: str
    options: dict[str, Any]
    num_classes: int
    in_channels: int
    image_size: tuple[int, int]
    classes: tuple[str, ...]
    preprocess: dict[str, Any] = field(default_factory=dict)
    background: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    def build(self) -> Model:
        """A fresh model of this kind."""
        return create_model(
            self.model,
            num_classes=self.num_classes,
            in_channels=self.in_channels,
            image_size=self.image_size,
            **self.options,
        )


def save_weights(path: str | Path, model: nn.Module, card: ModelCard) -> None:
    """Write a model's weights and its card; a failure leaves the old file as it was."""
    write_tensors(path, model.state_dict(), asdict(card))


def load_weights(path: str | Path) -> tuple[Model, ModelCard]:
    """Build the model that a file describes and give it the file's weights; no code is ever unpickled.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> card = ModelCard("pooled_cnn", {}, 2, 1, (16, 16), ("a", "b"))
        >>> with TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/best.safetensors", card.build(), card)
        ...     model, card = load_weights(f"{folder}/best.safetensors")
        >>> model.num_classes, card.classes
        (2, ('a', 'b'))
    """
    tensors, table = read_tensors(path)
    try:
        table["image_size"], table["classes"] = tuple(table["image_size"]), tuple(table["classes"])
        card = ModelCard(**table)
    except (KeyError, TypeError) as fault:
        raise RunError(f"{path} holds no description of a torchcaps model ({fault})") from None
    if card.model.startswith(OBJECT):
        raise RunError(
            f"{path} holds weights of {card.model.removeprefix(OBJECT)}, which is not a registered model: "
            "build that model yourself and call torchcaps.models.weights.load_into(model, path)"
        )
    model = card.build()
    _load(model, tensors, path)
    return model.eval(), card


def load_into(model: nn.Module, path: str | Path) -> nn.Module:
    """Give your own model the weights of a file, such as those that `torchcaps.fit` wrote.

    Args:
        model: built as the one that was saved.
        path: of a weights file.

    Returns:
        The same model; its mode is left as it is.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> card = ModelCard("object:Linear", {}, 2, 1, (1, 1), ("a", "b"))
        >>> with TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/last.safetensors", nn.Linear(1, 2), card)
        ...     load_into(nn.Linear(1, 2), f"{folder}/last.safetensors")
        Linear(in_features=1, out_features=2, bias=True)
    """
    tensors, _ = read_tensors(path)
    _load(model, tensors, path)
    return model


def _load(model: nn.Module, tensors: Mapping[str, Tensor], path: str | Path) -> None:
    try:
        model.load_state_dict(tensors)
    except RuntimeError as fault:
        raise RunError(f"{path} does not fit {type(model).__name__}: {fault}") from None


# Raised when what a file holds, or what it is called there, changes.
FORMAT = 2


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], table: Mapping[str, Any]) -> None:
    """Write tensors with a JSON table in the header: temporary file, flushed to the disk, renamed."""
    plain: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        # Tied weights share their memory, which the format does not allow.
        shared = any(value.data_ptr() == other.data_ptr() for other in plain.values())
        plain[name] = value.clone() if shared else value
    with replaced_on_success(path) as temporary:
        # Written here rather than by safetensors, whose files only their owner may read.
        temporary.write_bytes(save(plain, {"torchcaps": json.dumps({"format": FORMAT, **table})}))


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote."""
    if not Path(path).is_file():
        raise RunError(f"{path}: there is no such file")
    try:
        with safe_open(str(path), framework="pt") as file:
            header = (file.metadata() or {}).get("torchcaps", "{}")
            table = json.loads(header)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as fault:
        raise RunError(f"{path} is damaged: {fault}") from None
    found = table.pop("format", None) if isinstance(table, dict) else None
    if found != FORMAT:
        raise RunError(f"{path} has file format {found or 1}, and this version of torchcaps reads {FORMAT}")
    return tensors, table
