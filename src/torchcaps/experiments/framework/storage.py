"""Files of a study: JSON files, its `study.json`, and the folders of its training runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchcaps._files import write_atomically
from torchcaps.errors import RunError
from torchcaps.training.recipe import Recipe

# Files of a training run or a finished experiment: a folder that has one but no study.json is not a study.
FOREIGN_FILES = ("recipe.toml", "result.json")


def file_name(name: str) -> str:
    """The name of a network or a step as the name of a file or folder.

    >>> file_name("azimuth: capsules, no routing")
    'azimuth-capsules-no_routing'
    """
    return name.replace(", ", "-").replace(": ", "-").replace(" ", "_")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, [text.encode()])


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a dictionary as JSON, atomically."""
    write_text(path, json.dumps(table, indent=2) + "\n")


def read_json(path: Path, *required: str) -> dict[str, Any]:
    """Read a dictionary from a JSON file.

    Args:
        path: the file.
        required: keys that it must have.

    Raises:
        ValueError: the file is not JSON, is not a dictionary, or lacks a required key.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_json(Path(folder, "some.json"), {"seed": 3})
        ...     read_json(Path(folder, "some.json"), "seed")
        {'seed': 3}
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        table = None
    if not isinstance(table, dict) or not table.keys() >= set(required):
        raise ValueError(
            f"{path} is empty or damaged: give another --out, or remove the folder {path.parent}"
        )
    return table


def read_cached(path: Path, dependencies: Mapping[str, Any]) -> dict[str, Any] | None:
    """A cached value, or `None` if the file is missing or damaged, or has other dependencies."""
    try:
        table = read_json(path, "dependencies", "value")
    except (OSError, ValueError):
        return None
    return table["value"] if table["dependencies"] == as_json(dependencies) else None


def as_json(table: Mapping[str, Any]) -> dict[str, Any]:
    """A dictionary as it is after writing it to a JSON file and reading it again.

    >>> as_json({"sizes": (3, 4)})
    {'sizes': [3, 4]}
    """
    return json.loads(json.dumps(table))


def open_folder(out: Path, name: str, *, quick: bool, seed: int | None) -> None:
    """Create the folder of an experiment, or check that it belongs to the same experiment.

    Args:
        out: the folder.
        name: name of the experiment.
        quick: whether this is its quick form.
        seed: its random seed; `None` for several seeds, each in a folder of its own inside `out`.

    Raises:
        ValueError: `out` is a file, or holds a training run or another experiment.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     open_folder(Path(folder), "votes", quick=True, seed=0)
        ...     open_folder(Path(folder), "boats", quick=True, seed=0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ... holds the quick form of votes with seed 0: give another --out, or remove that folder
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: give a folder, or a new name")
    path = out / "study.json"
    if not path.is_file():
        foreign = [file for file in FOREIGN_FILES if (out / file).exists()]
        if foreign:
            raise ValueError(
                f"{out} holds a training run or another result ({', '.join(foreign)}): give another --out"
            )
        write_json(path, {"name": name, "quick": quick, "seed": seed, "seconds": 0.0})
    existing = read_json(path, "name", "quick", "seed")
    if (existing["name"], existing["quick"], existing["seed"]) != (name, quick, seed):
        form = "quick" if existing["quick"] else "full"
        seeds = "several seeds" if existing["seed"] is None else f"seed {existing['seed']}"
        raise ValueError(
            f"{out} holds the {form} form of {existing['name']} with {seeds}: "
            "give another --out, or remove that folder"
        )


def add_seconds(out: Path, seconds: float) -> float:
    """Add the seconds of this session to those of earlier sessions; returns the sum."""
    path = out / "study.json"
    table = read_json(path)
    table["seconds"] = round(table.get("seconds", 0.0) + seconds, 1)
    write_json(path, table)
    return table["seconds"]


def check_same_recipe(folder: Path, recipe: Recipe) -> None:
    """Check that a training run that was started in a folder has this recipe; the data may have moved.

    Raises:
        RunError: the folder holds a run with another recipe.
    """
    path = folder / "recipe.toml"
    if not path.is_file():
        return
    existing = Recipe.from_file(path)
    if not is_trained_by(existing, recipe):
        raise RunError(f"{folder} was trained with another recipe: give another --out, or remove that folder")
    if existing.data.dir != recipe.data.dir:
        # A resumed run compares recipes, and would refuse a data folder that has moved.
        write_text(path, replace(existing, data=replace(existing.data, dir=recipe.data.dir)).to_toml())


def is_trained_by(existing: Recipe, recipe: Recipe) -> bool:
    """Whether the run whose file has the recipe `existing` was trained by `recipe`.

    The data may have been in another folder, and a batch size that `recipe` leaves out was chosen by the run.
    """
    chosen = recipe.training.batch_size or existing.training.batch_size
    recipe = replace(recipe, data=replace(recipe.data, dir=existing.data.dir))
    recipe = replace(recipe, training=replace(recipe.training, batch_size=chosen))
    return Recipe.from_toml(recipe.to_toml()) == existing


def finished_result(folder: Path) -> dict[str, Any] | None:
    """The result of a training run, or `None` if it has not ended."""
    path = folder / "result.json"
    result = read_json(path, "status") if path.is_file() else {}
    return result if result.get("status") == "ended" else None


def epoch_files(folder: Path) -> list[Path]:
    """The weight files of all epochs of a training run, in order; empty if it has not ended.

    Raises:
        RunError: the file of an epoch is missing, so that all later ones would be counted wrongly.
    """
    result = finished_result(folder)
    if result is None:
        return []
    files = [folder / f"epoch-{epoch}.safetensors" for epoch in range(1, result["epochs"] + 1)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise RunError(
            f"{folder} lacks {', '.join(missing)}: part of it was trained without keeping the model of every "
            "epoch; remove that folder to train it again"
        )
    return files
