"""Trained networks as folders, and on the Hugging Face hub.

A folder holds `model.safetensors` (weights, with their `ModelCard` in the header), `config.json` (the same
card, for people and search) and `README.md` (a model card). A repository of the hub is such a folder. Local
folders need no network and no further package.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from torchcaps._extras import require
from torchcaps._files import write_atomically
from torchcaps.errors import RunError
from torchcaps.models.base import Model
from torchcaps.models.hub_card import readme, run_facts
from torchcaps.models.weights import ModelCard, load_weights, save_weights

WEIGHTS = "model.safetensors"
Kind = TypeVar("Kind", bound=Model)


def save_pretrained(
    model: Model,
    folder: str | Path,
    *,
    classes: Sequence[str] | None = None,
    preprocess: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    run: str | Path | None = None,
) -> Path:
    """Write a model to a folder that `from_pretrained` reads.

    Args:
        model: built by `create_model`, or loaded from a run with `load_weights`.
        folder: is created if needed; files of an earlier call are replaced.
        classes: names of the classes; by default those of `model.card`, or else their numbers.
        preprocess: how to prepare images, as in a recipe; by default that of `model.card`.
        facts: what else is worth keeping, such as data and metrics; by default those of `model.card`.
        run: folder of the finished run that the model comes from; its training, metrics and versions are
            added to the model card.

    Returns:
        The folder.

    Example:
        >>> from torchcaps import create_model
        >>> with TemporaryDirectory() as folder:
        ...     _ = save_pretrained(create_model("pooled_cnn", num_classes=2), folder, classes=("cat", "dog"))
        ...     from_pretrained(folder).card.classes
        ('cat', 'dog')
    """
    card = describe(model, classes=classes, preprocess=preprocess, facts=facts, run=run)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(folder / WEIGHTS, model, card)
    write_atomically(folder / "config.json", [json.dumps(asdict(card), indent=2).encode() + b"\n"])
    write_atomically(folder / "README.md", [readme(card).encode()])
    return folder


def from_pretrained(
    source: str | Path, *, revision: str | None = None, kind: type[Kind] | type[Model] = Model
) -> Model:
    """Load a model for evaluation.

    Args:
        source: a folder of `save_pretrained`, or a repository of the hub such as `"me/my-capsnet"`.
        revision: branch, tag or commit of a repository.
        kind: class that the model must have.

    Raises:
        RunError: there is no such folder and the repository cannot be fetched, or the file is damaged.
        MissingExtraError: a repository was named and `huggingface_hub` is not installed.
    """
    folder = Path(source)
    path = folder / WEIGHTS
    if not path.is_file():
        _check_source(source)
        path = _fetch(str(source), revision)
    model, _ = load_weights(path)
    if not isinstance(model, kind):
        raise RunError(f"{source} holds a {type(model).__name__}, not a {kind.__name__}")
    return model


def _check_source(source: str | Path) -> None:
    """Refuse what holds no `model.safetensors` and is no name of a repository."""
    if (Path(source) / "recipe.toml").is_file():
        raise RunError(
            f"{source} is the folder of a run, and from_pretrained reads those of save_pretrained: take "
            f'torchcaps.training.Predictor.load("{source}"), whose .model is the network'
        )
    if Path(source).is_dir():
        raise RunError(f"{source}: there is no {WEIGHTS} in it; save a model there with save_pretrained")
    if Path(source).is_file():
        raise RunError(f"{source} is a file: torchcaps.training.load_weights reads it")
    if str(source).count("/") != 1 or str(source).startswith((".", "/", "~")):
        raise RunError(f"{source}: there is no such folder; save_pretrained writes one")


def push_to_hub(model: Model, repository: str, *, private: bool = False, **facts: Any) -> str:
    """Publish a model on the Hugging Face hub; log in with `hf auth login` first.

    Args:
        model: see `save_pretrained`.
        repository: such as `"me/my-capsnet"`; it is created if needed.
        private: whether only you can see a new repository.
        facts: further arguments of `save_pretrained`.

    Returns:
        The address of the commit.
    """
    hub = require("huggingface_hub", extra="hub", purpose="publishing a model")
    with TemporaryDirectory() as folder:
        save_pretrained(model, folder, **facts)
        card = readme(describe(model, **facts), repository)
        write_atomically(Path(folder) / "README.md", [card.encode()])
        api = hub.HfApi()
        try:
            api.create_repo(repository, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=repository, folder_path=folder))
        # The library passes on errors of whatever it uses for the network.
        except Exception as fault:
            raise RunError(f"{repository} cannot be written on the hub: {_first_line(fault)}") from fault


def _fetch(repository: str, revision: str | None) -> Path:
    if os.environ.get("TORCHCAPS_OFFLINE"):
        raise RunError(f"there is no folder {repository}, and the hub is not used: TORCHCAPS_OFFLINE is set")
    purpose = f"there is no folder {repository}, and fetching it from the hub"
    hub = require("huggingface_hub", extra="hub", purpose=purpose)
    try:
        return Path(hub.hf_hub_download(repository, WEIGHTS, revision=revision))
    except Exception as fault:
        raise RunError(
            f"there is no folder {repository}, and it cannot be fetched from the hub: {_first_line(fault)}"
        ) from fault


def _first_line(fault: Exception) -> str:
    return (str(fault).strip() or type(fault).__name__).splitlines()[0]


def describe(
    model: Model,
    *,
    classes: Sequence[str] | None = None,
    preprocess: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    run: str | Path | None = None,
) -> ModelCard:
    """The card of a model; what is not given comes from the card that it was loaded with and from its run."""
    if model.created_as is None:
        raise ValueError(
            f"this {type(model).__name__} was not built by create_model, so it could not be built again "
            "from a file: register it with register_model and build it with create_model"
        )
    name, options = model.created_as
    try:
        json.dumps(options)
    except TypeError:
        raise ValueError(
            f"the options of {name} hold an object, which a file cannot: name the routing or backbone instead"
        ) from None
    old: ModelCard | None = model.card
    if classes is None:
        classes = old.classes if old else [str(number) for number in range(model.num_classes)]
    if len(classes) != model.num_classes:
        raise ValueError(f"classes must be {model.num_classes} names, got {len(classes)}")
    known = facts if facts is not None else dict(old.facts) if old else {}
    return ModelCard(
        name,
        options,
        model.num_classes,
        model.in_channels,
        model.image_size,
        tuple(classes),
        preprocess if preprocess is not None else dict(old.preprocess) if old else {},
        old.background if old else 0.0,
        known if run is None else {**known, **run_facts(run)},
        old.pad if old else False,
    )
