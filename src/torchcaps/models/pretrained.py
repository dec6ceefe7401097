"""The trained weights that come with the package: which there are, and that they are what they say."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from torchcaps._registry import suggest
from torchcaps.models.base import Model

FOLDER = Path(__file__).parents[1] / "weights"
# All weights together: what is fair to whoever installs the package.
MAX_BYTES = 15_000_000
NEEDED = ("model", "data", "file", "sha256")


def list_pretrained() -> list[dict[str, Any]]:
    """What is known of each: `model`, `data`, `file`, `sha256`, `weights`, `bytes`, `metrics`, `recipe`."""
    path = FOLDER / "index.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list) or not all(name in entry for entry in entries for name in NEEDED):
            raise ValueError(f"not a list of entries with {', '.join(NEEDED)}")
    except (OSError, ValueError, TypeError) as fault:
        raise ValueError(f"{path} is missing or damaged ({fault}): install torchcaps again") from None
    return sorted(entries, key=lambda entry: (entry["model"], entry["data"]))


def pretrained_path(model: str, data: str) -> Path:
    """The file of a model's weights trained on a data set, its digest checked.

    >>> pretrained_path("shared_capsnet", "mnst")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: no weights of shared_capsnet trained on 'mnst' come with torchcaps: ...
    """
    entries = {entry["data"]: entry for entry in list_pretrained() if entry["model"] == model}
    if data not in entries:
        known = suggest(str(data).lower(), entries) if entries else "none of this model do."
        raise ValueError(f"no weights of {model} trained on {data!r} come with torchcaps: {known}")
    entry = entries[data]
    path = FOLDER / entry["file"]
    if not path.is_file():
        raise ValueError(f"{path} is missing: install torchcaps again")
    found = digest(path, path.stat().st_mtime_ns)
    if found != entry["sha256"]:
        raise ValueError(
            f"{path} is not the file that was shipped: its sha256 is {found[:12]}…, "
            f"should be {entry['sha256'][:12]}…; install torchcaps again"
        )
    return path


@lru_cache(maxsize=64)
def digest(path: Path, changed: int) -> str:
    """sha256 of a file, computed once per version of it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def described(path: Path, model: str, data: str) -> dict[str, Any]:
    """How to build the model that a weights file is for, if it is for `model` and was trained on `data`."""
    try:
        with safe_open(str(path), framework="pt") as file:
            card = json.loads((file.metadata() or {}).get("torchcaps", "{}"))
        for what, wanted, found in (
            ("of the model", model, card["model"]),
            ("trained on", data, card["facts"]["data"]),
        ):
            if found != wanted:
                raise ValueError(
                    f"{path} holds weights {what} {found}, not {wanted}: install torchcaps again"
                )
    except (SafetensorError, KeyError, TypeError) as fault:
        raise ValueError(f"{path} is damaged ({fault!r}): install torchcaps again") from None
    return card


def load_tensors(model: Model, path: Path) -> None:
    """Give a model the weights of a file; whatever does not fit is an error that names it."""
    with safe_open(str(path), framework="pt") as file:
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    wanted = model.state_dict()
    for name in sorted(wanted.keys() | tensors.keys()):
        if name not in tensors or name not in wanted:
            where = "the file" if name in wanted else "the model"
            raise ValueError(f"{path.name} does not fit: {name} is not in {where}")
        if tensors[name].shape != wanted[name].shape:
            raise ValueError(
                f"{path.name} does not fit: {name} is {list(tensors[name].shape)} in the file and "
                f"{list(wanted[name].shape)} in the model"
            )
    model.load_state_dict(tensors)
