from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torchcaps._registry import Registry, suggest
from torchcaps.models.base import Model
from torchcaps.models.pretrained import described, load_tensors, pretrained_path
from torchcaps.routing import Routing, routing_options

MODELS: Registry[Callable[..., Model]] = Registry("model")

# What every model takes, and what it gets where nothing is said.
DEFAULT_SIZES: dict[str, Any] = {"num_classes": 10, "in_channels": 1, "image_size": 28}
SIZES = tuple(DEFAULT_SIZES)


def register_model(constructor: Callable[..., Model]) -> Callable[..., Model]:
    """Decorator that files a small constructor under its own name."""
    return MODELS.register(constructor.__name__)(constructor)


def list_models() -> list[str]:
    """Names that `create_model` takes."""
    return MODELS.names()


def create_model(
    name: str,
    *,
    num_classes: int | None = None,
    in_channels: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    pretrained: str | None = None,
    **options: Any,
) -> Model:
    """Make a network by name, for any number of classes, channels, and any image size that fits.

    Args:
        name: one of `list_models()`.
        num_classes: number of classes; 10 if nothing is said.
        in_channels: channels of an image; 1 if nothing is said.
        image_size: height and width of an image, or one number for both; 28 if nothing is said.
        pretrained: a data set, such as `"mnist"`, that weights come with the package for; sizes and options
            are then those it was trained with. `list_pretrained()` knows them.
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
    known = model_options(name, options.get("routing"))
    for option in options:
        if known is not None and option not in known:
            raise ValueError(f"model {name!r} has no option {option!r}: {suggest(option, known)}")
    sizes = {"num_classes": num_classes, "in_channels": in_channels, "image_size": image_size}
    given = {size: value for size, value in sizes.items() if value is not None}
    if pretrained is None:
        return constructor(**(DEFAULT_SIZES | given), **options)
    path = pretrained_path(name, pretrained)
    card = described(path, name, pretrained)
    built = {size: card[size] for size in SIZES} | card["options"]
    if isinstance(image_size, int):
        given["image_size"] = (image_size, image_size)
    for asked, value in (given | options).items():
        if asked in built and as_lists(value) == as_lists(built[asked]):
            continue
        has = f"{asked}={built[asked]!r}" if asked in built else f"the network's own {asked}"
        raise ValueError(
            f"the weights of {name} trained on {pretrained!r} have {has}, not {value!r}: "
            f"leave {asked} out, or build the model without pretrained and train it"
        )
    model = constructor(**{**built, "image_size": tuple(card["image_size"])})
    load_tensors(model, path)
    return model.eval()


def as_lists(value: Any) -> Any:
    """Tuples as lists, which is how files keep them.

    >>> as_lists(((64, 64), [128])), as_lists("dynamic")
    ([[64, 64], [128]], 'dynamic')
    """
    return [as_lists(each) for each in value] if isinstance(value, (tuple, list)) else value


def model_options(name: str, routing: str | Routing | None = None) -> list[str] | None:
    """Names of the options that the model `name` takes, those of its routing included.

    A constructor that takes `**options` hands them to the class that it says it returns, and that class hands
    what it does not know to its routing. `None` where this cannot be found out: a routing given as an object,
    or a constructor without a return annotation.

    Args:
        name: one of `list_models()`.
        routing: the routing it will have, if not its own.

    Example:
        >>> model_options("norb_cnn")
        ['dropout']
        >>> model_options("shared_capsnet", "kmeans")
        ['stages', 'class_dim', 'routing', 'iterations', 'metric', 'temperature']
    """
    taken = inspect.signature(_model_class(MODELS[name]) or MODELS[name]).parameters
    known = [p.name for p in taken.values() if p.kind is not p.VAR_KEYWORD and p.name not in SIZES]
    if not _open_ended(taken):
        return known
    routing = taken["routing"].default if "routing" in taken and routing is None else routing
    if not isinstance(routing, str):
        return None
    return known + [option for option in routing_options(routing) if option not in ("parents", "pose_size")]


def _model_class(constructor: Callable[..., Model]) -> type | None:
    """The class that a constructor says it returns, if it says so and hands its options on."""
    signature = inspect.signature(constructor)
    if not _open_ended(signature.parameters):
        return None
    made = signature.return_annotation
    made = getattr(constructor, "__globals__", {}).get(made) if isinstance(made, str) else made
    return made if inspect.isclass(made) and made is not inspect.Signature.empty else None


def _open_ended(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())
