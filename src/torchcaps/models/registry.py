from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torchcaps.models.base import Model
from torchcaps.registry import Registry, suggest

MODELS: Registry[Callable[..., Model]] = Registry("model")


def register_model(constructor: Callable[..., Model]) -> Callable[..., Model]:
    """Decorator that files a small constructor under its own name."""
    return MODELS.register(constructor.__name__)(constructor)


def list_models() -> list[str]:
    """Names that `create_model` takes."""
    return MODELS.names()


def create_model(
    name: str,
    *,
    num_classes: int = 10,
    in_channels: int = 1,
    image_size: int | tuple[int, int] = 28,
    **options: Any,
) -> Model:
    """Make a network by name, for any number of classes, channels, and any image size that fits.

    Args:
        name: one of `list_models()`.
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image, or one number for both.
        options: of that network, and of its routing (such as `iterations`).

    Example:
        >>> import torch
        >>> model = create_model("shared_capsnet", num_classes=10, in_channels=1, image_size=28)
        >>> model(torch.rand(2, 1, 28, 28)).scores.shape
        torch.Size([2, 10])
        >>> create_model("capsnett")
        Traceback (most recent call last):
        ValueError: unknown model 'capsnett': did you mean 'capsnet'? Known: capsnet, capsnet_cnn, \
capsnet_small, matrix_capsnet, matrix_capsnet_small, norb_cnn, pooled_cnn, shared_capsnet.
    """
    constructor = MODELS[name]
    parameters = inspect.signature(constructor).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for option in options:
        if option not in parameters and not open_ended:
            raise ValueError(f"model {name!r} has no option {option!r}: {suggest(option, parameters)}")
    return constructor(num_classes=num_classes, in_channels=in_channels, image_size=image_size, **options)
