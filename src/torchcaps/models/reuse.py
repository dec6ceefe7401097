"""A trained network for other classes, and what its last layer reads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps.layers import CapsuleLayer, ConstellationCaps, Decoder
from torchcaps.models.base import Model
from torchcaps.models.pretrained import load_tensors
from torchcaps.models.registry import create_model
from torchcaps.routing import Routing

# Modules that only hold others: of these, a layer that fits is kept.
CONTAINERS = (nn.Sequential, nn.ModuleList)


def reset_classifier(model: Model, num_classes: int) -> None:
    """See `Model.reset_classifier`."""
    twin = _rebuild(model, check_count("num_classes", num_classes))
    new = load_tensors(twin, model.state_dict(), type(model).__name__, strict=False)
    weight = next(model.parameters())
    twin.to(device=weight.device, dtype=weight.dtype).train(model.training)
    _replace(model, twin)
    model.num_classes, model.new_parameters, model.card = num_classes, new, None


def class_layer_input(model: Model, images: Tensor) -> Any:
    """See `Model.forward_features`."""
    kinds = (CapsuleLayer, ConstellationCaps, nn.Linear)
    inside = {
        part for each in model.modules() if isinstance(each, (Decoder, Routing)) for part in each.modules()
    }
    read: list[Any] = []
    handles = [
        layer.register_forward_pre_hook(lambda _layer, inputs: read.append(inputs[0]))
        for layer in model.modules()
        if isinstance(layer, kinds) and layer not in inside
    ]
    try:
        model(images)
    finally:
        for handle in handles:
            handle.remove()
    return read[-1]  # the layer of the classes is called last


def _rebuild(model: Model, num_classes: int) -> Model:
    if model.created_as is None:
        raise ValueError(
            f"this {type(model).__name__} was not built by create_model, so its options are not known: "
            "build it with create_model, or build another one with the new num_classes"
        )
    name, options = model.created_as
    sizes: dict[str, Any] = {"in_channels": model.in_channels, "image_size": model.image_size}
    return create_model(name, num_classes=num_classes, **sizes, **options)


def _replace(model: nn.Module, twin: nn.Module) -> None:
    """Put those layers of the twin into the model that have other shapes."""
    for name, child in model.named_children():
        other = twin.get_submodule(name)
        if _shapes(child) == _shapes(other):
            continue
        if isinstance(child, CONTAINERS):
            _replace(child, other)
        else:
            setattr(model, name, other)


def _shapes(module: nn.Module) -> list[torch.Size]:
    return [tensor.shape for tensor in module.state_dict().values()]
