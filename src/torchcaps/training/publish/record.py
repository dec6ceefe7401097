"""From a run to a result that others can check: its numbers, and the command that repeats it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchcaps._files import digest, replaced_on_success
from torchcaps.errors import RunError
from torchcaps.training.recipe import Recipe
from torchcaps.training.recipe.files import list_recipes
from torchcaps.training.run import sessions_of


def record(run: str | Path, results: str | Path = "results") -> Path:
    """Copy the result of a run into the folder of results.

    Args:
        run: folder of a run that has ended.
        results: folder of results, one JSON file per run.

    Returns:
        The file written.
    """
    run = Path(run).resolve()
    result = read_result(run)
    sessions = sessions_of(run)
    result["environment"] = {**sessions[-1], "command": command(result, sessions)}
    # Commands and folders of a private machine are left out; the time and the code's version are kept.
    result["sessions"] = [{name: each[name] for name in ("started", "git")} for each in sessions]
    result.pop("run", None)
    name = recipe_name(Recipe.from_table(result["recipe"])) or run.name
    path = Path(results) / (f"{name}-seed{result['seed']}.json" if result["seed"] else f"{name}.json")
    with replaced_on_success(path) as temporary:
        temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return path


def read_result(run: Path) -> dict[str, Any]:
    """The result of a run that has ended, if the run still holds the weights that it is about."""
    if not (run / "recipe.toml").is_file():
        raise RunError(f"{run} is not the folder of a run: it holds no recipe.toml")
    path = run / "result.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if result.get("status") != "ended":
        raise RunError(f"{run} has not ended: continue it with torchcaps train --resume --out {run}")
    if digest(run / result["model"]) != result["sha256"]:
        raise RunError(
            f"{run}: result.json is about other weights than those in {result['model']}, as when a run was "
            f"continued and stopped; end it with torchcaps train --resume --out {run}"
        )
    if Recipe.from_file(run / "recipe.toml") != Recipe.from_table(result["recipe"]):
        raise RunError(f"{run}: result.json is about another recipe than recipe.toml")
    return result


def command(result: dict[str, Any], sessions: list[dict[str, Any]]) -> str:
    """The command that repeats a run: its recipe by name, or otherwise the commands of all its sessions."""
    name = recipe_name(Recipe.from_table(result["recipe"]))
    if name is None:
        return "; ".join(shlex.join(["torchcaps", *each["command"][1:]]) for each in sessions)
    return f"torchcaps train {name}" + (f" --seed {result['seed']}" if result["seed"] else "")


def recipe_name(recipe: Recipe) -> str | None:
    """The recipe that comes with torchcaps and is the same but for its seed and the folder of its data."""
    wanted = comparable(recipe)
    for name, path in list_recipes().items():
        if comparable(Recipe.from_file(path)) == wanted:
            return name
    return None


def comparable(recipe: Recipe) -> Recipe:
    """A recipe without its description, its seed and the folder of its data."""
    return replace(recipe, description="", seed=0, data=replace(recipe.data, dir=None))
