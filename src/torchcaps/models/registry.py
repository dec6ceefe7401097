"""Networks by name: what can be built, with which options, and what training must know of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from torchcaps._registry import Registry, suggest
from torchcaps.models.base import Model
from torchcaps.routing import Routing, routing_options

# What every model takes, and the values it gets by default.
DEFAULT_SIZES: dict[str, Any] = {"num_classes": 10, "in_channels": 1, "image_size": 28}
SIZES = tuple(DEFAULT_SIZES)
# Names that other libraries use for these.
ALIASES = {
    "in_chans": "in_channels",
    "channels_in": "in_channels",
    "img_size": "image_size",
    "input_size": "image_size",
    "n_classes": "num_classes",
    "nb_classes": "num_classes",
    "classes": "num_classes",
}

Constructor = TypeVar("Constructor", bound=Callable[..., Any])


@dataclass(frozen=True)
class ModelInfo:
    """A registered network.

    Attributes:
        constructor: makes the network from keyword arguments.
        recipe: tables of a recipe that suits it, such as `{"loss": {"name": "margin"}}`.
        on: changes to the recipe's `data` table on some data sets, by name of the data set.
    """

    constructor: Callable[..., Any]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


MODELS: Registry[ModelInfo] = Registry("model")


@overload
def register_model(constructor: Constructor) -> Constructor: ...


@overload
def register_model(
    *, recipe: Mapping[str, Any] = ..., on: Mapping[str, Mapping[str, Any]] = ...
) -> Callable[[Constructor], Constructor]: ...


def register_model(constructor: Any = None, **facts: Any) -> Any:
    """Decorator that makes a constructor known to `create_model`, to recipes and to the command line.

    The constructor is registered under its own name. It takes `num_classes`, `in_channels` and `image_size`
    and returns any `nn.Module` that maps images `[B, C, H, W]` to `Output` or to logits `[B, classes]`.

    Args:
        constructor: the function or class to register.
        facts: `recipe` and `on` of `ModelInfo`.

    Example:
        >>> from torch import nn
        >>> @register_model(recipe={"loss": {"name": "cross_entropy"}})
        ... def linear_model(num_classes, in_channels, image_size):
        ...     return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_classes))
        >>> "linear_model" in list_models()
        True
    """

    def register(target: Constructor) -> Constructor:
        MODELS.register(target.__name__)(ModelInfo(target, **facts))
        return target

    if constructor is not None and not callable(constructor):
        raise ValueError(
            f"register_model takes the name of the function that it decorates; leave {constructor!r} out"
        )
    return register if constructor is None else register(constructor)


def model_info(name: str) -> ModelInfo:
    """What is registered under a name; an unknown one is an error that suggests the nearest."""
    return MODELS[name]


def list_models() -> list[str]:
    """Names that `create_model` takes."""
    return MODELS.names()


def create_model(
    name: str,
    *,
    num_classes: int | None = None,
    in_channels: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    pretrained: str | bool | None = None,
    freeze: bool | Sequence[str] = False,
    **options: Any,
) -> Model:
    """Make a network by name, in training mode, for any number of classes and channels and any image size.

    With `pretrained`, sizes and options default to those of the weights. Another number of classes gives the
    network a new class layer; another number of channels averages or repeats the first convolution's filters.
    Parameters that no longer fit are initialized again: their names are in `model.new_parameters`.

    Args:
        name: one of `list_models()`.
        num_classes: number of classes; 10 by default.
        in_channels: channels of an image; 1 by default.
        image_size: height and width of an image, or one number for both; 28 by default.
        pretrained: the data set that the weights were trained on, such as `"mnist"`; `True` if there is only
            one. `list_pretrained()` lists them. A model on a backbone, such as `capsule_head`, takes the
            weights of a timm backbone instead: `True`, or a tag of timm such as `"a1_in1k"`.
        freeze: do not train these: `True` for all pretrained parameters, or names of layers.
        options: of that network, and of its routing (such as `iterations`).

    Example:
        >>> import torch
        >>> model = create_model("shared_capsnet", num_classes=10, in_channels=1, image_size=28)
        >>> model(torch.rand(2, 1, 28, 28)).scores.shape
        torch.Size([2, 10])
        >>> letters = create_model("shared_capsnet", pretrained="mnist", num_classes=5, freeze=True)
        >>> letters.new_parameters
        ('classes.weight',)
        >>> create_model("capsnett")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: unknown model 'capsnett': did you mean 'capsnet'? If it is your own, ...
    """
    from torchcaps.models.pretrained import freeze_parameters, load_pretrained

    info = MODELS[name]
    known = model_options(name, options.get("routing"))
    for option in options:
        if known is not None and option not in known:
            near = ALIASES.get(option)
            hint = f"did you mean {near!r}?" if near else suggest(option, [*SIZES, *known])
            raise ValueError(f"model {name!r} has no option {option!r}: {hint}")
    sizes = {"num_classes": num_classes, "in_channels": in_channels, "image_size": image_size}
    given = {size: value for size, value in sizes.items() if value is not None}
    if pretrained is None or pretrained is False:
        model = info.constructor(**(DEFAULT_SIZES | given), **options)
    elif takes_pretrained(name):
        model = info.constructor(**(DEFAULT_SIZES | given), pretrained=pretrained, **options)
    else:
        model = load_pretrained(name, pretrained, info.constructor, given, options)
    if isinstance(model, Model) and model.created_as is None:
        model.created_as = (name, options)
    freeze_parameters(model, freeze)
    return model


def model_options(name: str, routing: str | Routing | None = None) -> list[str] | None:
    """Names of the options that the model `name` takes, those of its routing included.

    A constructor that takes `**options` passes them to the class that its annotation says it returns, and
    that class passes what it does not know to its routing. `None` where this cannot be found out: a routing
    given as an object, or a constructor without a return annotation.

    Args:
        name: one of `list_models()`.
        routing: the routing it will have, if not its own.

    Example:
        >>> model_options("norb_cnn")
        ['dropout']
    """
    taken = model_parameters(name)
    known = [p.name for p in taken.values() if p.kind is not p.VAR_KEYWORD and p.name not in SIZES]
    if not _open_ended(taken):
        return known
    routing = taken["routing"].default if "routing" in taken and routing is None else routing
    if not isinstance(routing, str):
        return None
    more = [option for option in routing_options(routing) if option not in ("parents", "pose_dim", *known)]
    return known + more


def takes_pretrained(name: str) -> bool:
    """Whether a model handles `pretrained` itself: its weights do not come with torchcaps.

    >>> takes_pretrained("capsule_head"), takes_pretrained("capsnet")
    (True, False)
    """
    return "pretrained" in model_parameters(name)


def model_parameters(name: str) -> Mapping[str, inspect.Parameter]:
    """The parameters of a model's class, or of the function that makes it.

    >>> model_parameters("capsnet")["routing"].default
    'dynamic'
    """
    constructor = MODELS[name].constructor
    return inspect.signature(model_class(constructor) or constructor).parameters


def model_class(constructor: Callable[..., Any]) -> type | None:
    """The class that a constructor's annotation says it returns, if it passes its options on."""
    signature = inspect.signature(constructor)
    if not _open_ended(signature.parameters):
        return None
    made = signature.return_annotation
    made = getattr(constructor, "__globals__", {}).get(made) if isinstance(made, str) else made
    return made if inspect.isclass(made) and made is not inspect.Signature.empty else None


def _open_ended(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())
