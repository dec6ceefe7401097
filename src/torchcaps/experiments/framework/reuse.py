"""Networks that several experiments train alike: the second one takes the run of the first."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import torchcaps
from torchcaps.experiments.framework.storage import add_seconds, finished_result, is_trained_by
from torchcaps.training.recipe import Recipe
from torchcaps.training.run import sessions_of


def reuse_run(out: Path, folder: Path, recipe: Recipe, *, keep_epochs: bool) -> Path | None:
    """Copy a finished training run with the same recipe from another experiment, if there is one.

    On a CPU a recipe with its seed gives the same weights every time, so nothing is lost. The copy keeps its
    `environment.json`: the commit at which it was trained stays known.

    Args:
        out: folder of this experiment with one seed, such as `runs/perturb-seeds/seed-0`.
        folder: of the training run in this experiment; nothing is done if it is there already.
        recipe: of the training run.
        keep_epochs: whether the models of all epochs are needed.

    Returns:
        The folder that was copied; `None` if there is none.
    """
    if folder.exists():
        return None
    for other in finished_runs(out):
        result = finished_result(other)
        if result is None or not is_same_run(other, recipe):
            continue
        epochs = range(1, result["epochs"] + 1)
        if keep_epochs and not all((other / f"epoch-{epoch}.safetensors").is_file() for epoch in epochs):
            continue
        # Under another name first: a copy that is cut off must not look like a run.
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(other, part)
        part.rename(folder)
        if (out / "study.json").is_file():
            add_seconds(out, result["seconds"])  # the hours of a claim are those that it takes alone
        return other
    return None


def finished_runs(out: Path) -> Iterator[Path]:
    """The training runs of other experiments with several seeds, in the same folder of runs."""
    if out.name.startswith("seed-"):
        for path in sorted(out.parent.parent.glob("*/seed-*/trained/*/result.json")):
            if out not in path.parents and not path.parent.name.startswith("."):
                yield path.parent


def is_same_run(folder: Path, recipe: Recipe) -> bool:
    """Whether a run was trained with this recipe, wherever its data were, and with this version."""
    try:
        existing = Recipe.from_file(folder / "recipe.toml")
        versions = {session.get("torchcaps") for session in sessions_of(folder)}
    except (OSError, ValueError):
        return False
    return is_trained_by(existing, recipe) and versions == {torchcaps.__version__}
