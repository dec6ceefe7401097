"""The folders of a study's trainings: whether one is what is asked for, and what it left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torchcaps.errors import RunError
from torchcaps.experiments.workbench.on_disk import read_table, write_text
from torchcaps.training.recipe import Recipe


def check_same_recipe(folder: Path, recipe: Recipe) -> None:
    """What was trained, or begun, in a folder must have this recipe, but for where the data lies."""
    known = folder / "recipe.toml"
    if not known.is_file():
        return
    before = Recipe.from_file(known)
    if anywhere(before) != anywhere(recipe):
        raise RunError(f"{folder} was trained with another recipe: give another --out, or remove that folder")
    if before.data.dir != recipe.data.dir:
        # A run that goes on keeps its data, and would take a folder that has moved for other data.
        write_text(known, recipe.to_toml())


def anywhere(recipe: Recipe) -> Recipe:
    """A recipe as it comes back from a file, without the place of its data."""
    return Recipe.from_toml(replace(recipe, data=replace(recipe.data, dir=None)).to_toml())


def result_of(folder: Path) -> dict[str, Any] | None:
    """The result of a training that ended."""
    path = folder / "result.json"
    result = read_table(path, "status") if path.is_file() else {}
    return result if result.get("status") == "ended" else None


def epoch_files(folder: Path) -> list[Path]:
    """The models of a training's epochs, the first first; one that is missing would shift all after it."""
    result = result_of(folder)
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
