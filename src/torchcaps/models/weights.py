"""A trained model as one file: weights in safetensors, and in its header all that is needed to use them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from torchcaps._checks import check_count, check_counts, check_flag, check_number
from torchcaps._files import replaced_on_success
from torchcaps.errors import RunError
from torchcaps.models.base import Model
from torchcaps.models.registry import create_model

# Pixels along a side of an image. Some models have no weight that depends on it, so that nothing else would
# stop a card from asking for images that fit no memory.
MAX_SIDE = 16384
MAX_MESSAGE = 500
# How the card names a model that is not registered: its class comes after this.
OBJECT = "object:"


@dataclass(frozen=True)
class ModelCard:
    """What must be known to use some weights: how to build the model, and how to prepare its images.

    Every weights file holds one. `load_weights` returns it, `Predictor.card` and `model.card` are one, and
    `export` writes its classes and its preprocessing into the new file.

    Attributes:
        model: name for `create_model`; `object:` and the class of a model that cannot be built by name.
        options: of the model, as `create_model` takes them.
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image after the preprocessing.
        classes: their names, in the order of the scores.
        preprocess: options of `Preprocess`.
        background: mean brightness, 0..1, of the border of its training images, to tell ink from paper.
        facts: whatever else is worth keeping, such as the step and the metrics.
        pad: whether an image file of another shape is padded rather than cropped, as its training images
            were.

    Example:
        >>> card = ModelCard("pooled_cnn", {"hidden": 64}, 2, 3, (32, 32), ("cat", "dog"))
        >>> card.build().num_classes
        2
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
    pad: bool = False

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

    What the file says about the model is compared with the tensors in it before any memory is taken.

    Raises:
        RunError: the file is damaged, describes another model than its weights are of, or holds weights that
            are not finite; the message names the file and the fault.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> card = ModelCard("pooled_cnn", {}, 2, 1, (16, 16), ("a", "b"))
        >>> with TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/best.safetensors", card.build(), card)
        ...     model, card = load_weights(f"{folder}/best.safetensors")
        >>> model.num_classes, card.classes
        (2, ('a', 'b'))
    """
    with _opened(path) as (file, table):
        card = _read_card(table, path)
        if card.model.startswith(OBJECT):
            run = Path(path).parent
            raise RunError(
                f"{path} holds weights of {card.model.removeprefix(OBJECT)}, which cannot be built by name. "
                f'In Python, build the model and call torchcaps.training.load_into(model, "{run}"), or '
                f'Predictor.load("{run}", model) for images. For the command line and to load it by its '
                "path, write a function that returns the model, decorate it with @torchcaps.register_model, "
                "train what torchcaps.create_model makes of its name, and give its file to --import"
            )
        try:
            misfit = _find_misfit_of_card(card, file)
            model = None if misfit else card.build()
        except (ValueError, TypeError, RuntimeError, ArithmeticError, LookupError, AttributeError) as fault:
            raise RunError(f"{path} describes a model that cannot be built: {_one_line(fault)}") from None
        if model is None:
            raise RunError(f"{path} describes another model than its weights are of: {misfit}")
        tensors = _tensors(file)
    _load(model, tensors, path)
    model.card = card
    return model.eval(), card


def read_card(path: str | Path) -> ModelCard:
    """The card of a weights file."""
    with _opened(path) as (_, table):
        return _read_card(table, path)


def _read_card(table: dict[str, Any], path: str | Path) -> ModelCard:
    try:
        card = ModelCard(**table)
    except TypeError as fault:
        raise RunError(f"{path} holds no description of a torchcaps model ({fault})") from None
    try:
        if not isinstance(card.model, str):
            raise ValueError(f"model must be a name, got {card.model!r}")
        for name in ("options", "preprocess", "facts"):
            if not isinstance(getattr(card, name), dict):
                raise ValueError(f"{name} must be a table, got {getattr(card, name)!r}")
        check_count("num_classes", card.num_classes)
        check_count("in_channels", card.in_channels)
        size = check_counts("image_size", card.image_size, 2)
        if max(size) > MAX_SIDE:
            raise ValueError(f"image_size is at most {MAX_SIDE}, got {max(size)}")
        check_number("background", card.background)
        check_flag("pad", card.pad)
        if not isinstance(card.classes, list) or not all(isinstance(name, str) for name in card.classes):
            raise ValueError(f"classes must be a list of names, got {card.classes!r}")
        if len(card.classes) != card.num_classes:
            raise ValueError(f"there are {len(card.classes)} class names for {card.num_classes} classes")
    except ValueError as fault:
        raise RunError(f"{path} has a damaged description of its model: {_one_line(fault)}") from None
    return replace(card, image_size=(size[0], size[1]), classes=tuple(card.classes))


def _find_misfit_of_card(card: ModelCard, file: Any) -> str:
    """What does not fit between the model that a card describes and the tensors of its file."""
    try:
        # There tensors have shapes and no memory.
        with torch.device("meta"):
            wanted = card.build().state_dict()
    except (TypeError, RuntimeError) as fault:
        # A registered constructor may compute with values, which the meta device does not have.
        if "meta" in str(fault):
            return ""
        raise
    return find_misfit(wanted, {name: file.get_slice(name).get_shape() for name in file.keys()})  # noqa: SIM118


def find_misfit(wanted: Mapping[str, Tensor], shapes: Mapping[str, Sequence[int]]) -> str:
    """The first name or shape in a file that is not as in the model; empty if all fit.

    >>> find_misfit({"weight": torch.zeros(2, 3)}, {"weight": (2, 4)})
    'weight is [2, 4] in the file and [2, 3] in the model'
    """
    for name in sorted(wanted.keys() ^ shapes.keys()):
        return f"{name} is not in {'the file' if name in wanted else 'the model'}"
    for name, tensor in wanted.items():
        if not is_lazy(tensor) and list(tensor.shape) != list(shapes[name]):
            return f"{name} is {list(shapes[name])} in the file and {list(tensor.shape)} in the model"
    return ""


def find_unusable(wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> str:
    """The first tensor of a file whose values are of another kind, or not finite; empty if there is none.

    A tensor that is not finite in the model either, such as a mask, may be so in the file.

    >>> find_unusable({"bias": torch.zeros(1)}, {"bias": torch.tensor([torch.nan])})
    'bias holds values that are not finite'
    """
    for name, own in wanted.items():
        tensor = tensors[name]
        lazy = is_lazy(own)
        if not lazy and own.is_floating_point() != tensor.is_floating_point():
            return f"{name} holds {tensor.dtype}, and {own.dtype} is expected"
        # Large values of a wider type become infinite in the model.
        if not _is_finite(tensor if lazy else tensor.to(own.dtype)) and (lazy or _is_finite(own)):
            return f"{name} holds values that are not finite"
    return ""


def load_file_into(model: nn.Module, path: str | Path) -> nn.Module:
    """Give a model the weights of a file and nothing else.

    Users call `torchcaps.training.load_into`, which takes a run's folder as well and sets `model.card`.

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
        ...     load_file_into(nn.Linear(1, 2), f"{folder}/last.safetensors")
        Linear(in_features=1, out_features=2, bias=True)
    """
    tensors, _ = read_tensors(path)
    _load(model, tensors, path)
    return model


def with_name(card: ModelCard, model: nn.Module) -> ModelCard:
    """The card with the name and the options that `create_model` built the model with, if they still do.

    A model that was built in another way, was changed since, or has an option that no file can hold, such as
    a `Routing` object, keeps the card as it is.
    """
    if not isinstance(model, Model) or model.created_as is None:
        return card
    name, options = model.created_as
    named = replace(card, model=name, options=dict(options))
    try:
        json.dumps(named.options)
        with torch.device("meta"):
            wanted = named.build().state_dict()
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        return card
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    return card if find_misfit(wanted, shapes) else named


def _load(model: nn.Module, tensors: Mapping[str, Tensor], path: str | Path) -> None:
    own = model.state_dict()
    misfit = find_misfit(own, {name: tensor.shape for name, tensor in tensors.items()})
    if misfit:
        raise RunError(f"{path} does not fit {type(model).__name__}: {misfit}")
    unusable = find_unusable(own, tensors)
    if unusable:
        raise RunError(f"{path} cannot be used: {unusable}")
    model.load_state_dict(tensors)


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def _one_line(fault: Exception) -> str:
    """An error's text up to torch's list of C++ frames, in one line of reasonable length."""
    text = " ".join(str(fault).partition("Exception raised from")[0].split()).rstrip(' "')
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


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
    with _opened(path) as (file, table):
        return _tensors(file), table


def _tensors(file: Any) -> dict[str, Tensor]:
    return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The open file, of which no tensor is read yet, and its table."""
    if Path(path).is_dir():
        raise RunError(
            f"{path} is a folder, and a weights file is needed: torchcaps.training.load_into(model, folder) "
            "and Predictor.load(folder) choose the one that a run reports"
        )
    if not Path(path).is_file():
        raise RunError(f"{path}: there is no such file")
    try:
        with safe_open(str(path), framework="pt") as file:
            table = json.loads((file.metadata() or {}).get("torchcaps", "{}"))
            version = table.pop("format", None) if isinstance(table, dict) else None
            if version != FORMAT:
                raise RunError(
                    f"{path} has file format {version or 1}, and this version of torchcaps reads {FORMAT}"
                )
            yield file, table
    except RecursionError:
        raise RunError(f"{path} is damaged: its description is nested too deeply") from None
    except (SafetensorError, ValueError) as fault:
        if Path(path).suffix != ".safetensors":
            raise RunError(
                f"{path} is not a weights file, whose name ends in .safetensors ({_one_line(fault)})"
            ) from None
        raise RunError(f"{path} is damaged: {_one_line(fault)}") from None
