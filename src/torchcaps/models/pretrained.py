"""The trained weights that come with the package, and how another network starts from them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from torchcaps._files import digest
from torchcaps._registry import suggest
from torchcaps.errors import RunError
from torchcaps.models.base import Model
from torchcaps.models.weights import read_tensors

FOLDER = Path(__file__).parents[1] / "weights"
# All weights together, so that installing the package stays quick.
MAX_BYTES = 20_000_000
NEEDED = ("model", "data", "file", "sha256")


def list_pretrained() -> list[dict[str, Any]]:
    """What is known of each: `model`, `data`, `file`, `sha256`, `num_params`, `metrics` and more."""
    path = FOLDER / "index.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list) or not all(name in entry for entry in entries for name in NEEDED):
            raise ValueError(f"not a list of entries with {', '.join(NEEDED)}")
    except (OSError, ValueError, TypeError) as fault:
        raise ValueError(f"{path} is missing or damaged ({fault}): install torchcaps again") from None
    return sorted(entries, key=lambda entry: (entry["model"], entry["data"]))


def pretrained_path(model: str, data: str | bool) -> Path:
    """The file of a model's weights trained on a data set, its digest checked.

    >>> pretrained_path("shared_capsnet", "mnst")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: no weights of shared_capsnet trained on 'mnst' come with torchcaps: ...
    """
    entries = {entry["data"]: entry for entry in list_pretrained() if entry["model"] == model}
    if data is True and len(entries) == 1:
        data = next(iter(entries))
    if data not in entries:
        known = suggest(str(data).lower(), entries) if entries else "none of this model do."
        raise ValueError(f"no weights of {model} trained on {data!r} come with torchcaps: {known}")
    entry = entries[str(data)]
    path = FOLDER / entry["file"]
    if not path.is_file():
        raise ValueError(f"{path} is missing: install torchcaps again")
    found = _digest_once(path, path.stat().st_mtime_ns)
    if found != entry["sha256"]:
        raise ValueError(
            f"{path} is not the file that was shipped: its sha256 is {found[:12]}…, "
            f"should be {entry['sha256'][:12]}…; install torchcaps again"
        )
    return path


@lru_cache(maxsize=64)
def _digest_once(path: Path, changed: int) -> str:
    return digest(path)


def load_pretrained(
    name: str,
    data: str | bool,
    constructor: Callable[..., Model],
    sizes: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Model:
    """Build a network with shipped weights; see `create_model`.

    Args:
        name: of the model.
        data: what the weights were trained on; `True` if there is only one choice.
        constructor: makes the model.
        sizes: those of `num_classes`, `in_channels` and `image_size` that were given.
        options: of the model; those of the weights if not given.
    """
    path = pretrained_path(name, data)
    try:
        tensors, card = read_tensors(path)
    except RunError as fault:
        raise ValueError(f"{fault}: install torchcaps again") from None
    try:
        trained = {size: card[size] for size in ("num_classes", "in_channels", "image_size")}
        described = (card["model"], card["facts"]["data"])
        built = dict(card["options"])
    except (KeyError, TypeError) as fault:
        raise ValueError(f"{path} is damaged ({fault!r}): install torchcaps again") from None
    if described[0] != name or (data is not True and described[1] != data):
        raise ValueError(
            f"{path} holds weights of {described[0]} trained on {described[1]}, not of {name} trained on "
            f"{data}: install torchcaps again"
        )
    for option, value in options.items():
        if option not in built or as_lists(value) != as_lists(built[option]):
            has = f"{option}={built[option]!r}" if option in built else f"the network's own {option}"
            raise ValueError(
                f"the weights of {name} trained on {described[1]!r} have {has}, not {value!r}: "
                f"leave {option} out, or build the model without pretrained and train it"
            )
    trained["image_size"] = tuple(trained["image_size"])
    model = constructor(**(trained | dict(sizes)), **built)
    size = model.image_size, model.num_classes, model.in_channels
    same = size == (trained["image_size"], trained["num_classes"], trained["in_channels"])
    model.created_as = (name, built)
    model.new_parameters = load_tensors(model, tensors, path.name, strict=same)
    if model.new_parameters and model.num_classes == trained["num_classes"]:
        warnings.warn(
            f"{', '.join(model.new_parameters)} of {name} do not fit the weights, which are for images of "
            f"{'×'.join(map(str, trained['image_size']))}; these parameters start untrained",
            stacklevel=3,
        )
    return model


def load_tensors(
    model: nn.Module, tensors: Mapping[str, Tensor], source: str, *, strict: bool = True
) -> tuple[str, ...]:
    """Give a model the tensors that fit it.

    Args:
        model: the network.
        tensors: by name, as in its `state_dict`.
        source: what to call them in an error.
        strict: whether a tensor that does not fit is an error; otherwise the model keeps its own. The filters
            of a first convolution for another number of channels are averaged over channels and repeated.

    Returns:
        Names of the parameters that kept the model's own values.
    """
    wanted = model.state_dict()
    for name in sorted(wanted.keys() ^ tensors.keys()):
        where = "the file" if name in wanted else "the model"
        raise ValueError(f"{source} does not fit: {name} is not in {where}")
    fitting, new = {}, []
    first = next((name for name, value in wanted.items() if value.ndim == 4), None)
    for name, own in wanted.items():
        tensor = tensors[name]
        if name == first and not strict and tensor.shape[::2] == own.shape[::2]:
            channels = own.shape[1]
            # The sum over channels stays, so that a gray image gives the same features as before.
            shared = tensor.mean(1, keepdim=True) * (tensor.shape[1] / channels)
            tensor = tensor if tensor.shape == own.shape else shared.expand(-1, channels, -1, -1)
        if tensor.shape == own.shape:
            fitting[name] = tensor
        elif strict:
            raise ValueError(
                f"{source} does not fit: {name} is {list(tensor.shape)} in the file and "
                f"{list(own.shape)} in the model"
            )
        else:
            new.append(name)
    model.load_state_dict({**wanted, **fitting})
    return tuple(new)


def freeze_parameters(model: nn.Module, freeze: bool | Sequence[str]) -> None:
    """Stop the training of some parameters.

    Args:
        model: the network.
        freeze: `True` for all but `model.new_parameters`, or names of layers such as `["conv", "primary"]`.

    Example:
        >>> net = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))
        >>> freeze_parameters(net, ["0"])
        >>> [name for name, parameter in net.named_parameters() if parameter.requires_grad]
        ['1.weight', '1.bias']
    """
    if freeze is False:
        return
    if freeze is True:
        new = getattr(model, "new_parameters", None)
        if new is None:
            raise ValueError("freeze=True needs pretrained weights; give names of layers instead")
        names = [name for name, _ in model.named_parameters() if name not in new]
    else:
        if isinstance(freeze, str) or not all(isinstance(each, str) for each in freeze):
            raise ValueError(f"freeze must be True, False or names of layers, got {freeze!r}")
        layers = [name for name, _ in model.named_modules() if name]
        for each in freeze:
            if each not in layers:
                raise ValueError(f"freeze: there is no layer {each!r}: {suggest(each, layers)}")
        names = [
            name
            for name, _ in model.named_parameters()
            if any(name == each or name.startswith(f"{each}.") for each in freeze)
        ]
    for name, parameter in model.named_parameters():
        if name in names:
            parameter.requires_grad_(False)


def as_lists(value: Any) -> Any:
    """Tuples as lists, which is how files keep them.

    >>> as_lists(((64, 64), [128])), as_lists("dynamic")
    ([[64, 64], [128]], 'dynamic')
    """
    return [as_lists(each) for each in value] if isinstance(value, (tuple, list)) else value
