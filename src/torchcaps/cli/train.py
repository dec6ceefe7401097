from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from torchcaps.cli.options import RUNS, DataDir, Settings

# What shells say of a program that Ctrl-C ended.
INTERRUPTED = 130

if TYPE_CHECKING:
    from torchcaps.training.recipe import Recipe


def train(
    recipe_file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="RECIPE", help="A recipe's name, or a TOML file."),
    ] = None,
    recipe: Annotated[Optional[str], typer.Option(help="The same, as an option.")] = None,  # noqa: UP045
    model: Annotated[Optional[str], typer.Option(help="A model (see: torchcaps models).")] = None,  # noqa: UP045
    data: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="A data set (see: torchcaps data), or folder:PATH for your own images."),
    ] = None,
    data_dir: DataDir = None,
    epochs: Annotated[Optional[int], typer.Option(help="Passes over the training images.")] = None,  # noqa: UP045
    out: Annotated[Optional[Path], typer.Option(help="The run's folder; by default in runs/.")] = None,  # noqa: UP045
    seed: Annotated[Optional[int], typer.Option(help="Of the initial weights and the batches.")] = None,  # noqa: UP045
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, or the newest.")
    ] = False,
    budget: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TIME", help="Stop after 90m, 1h30m, 45s …, saved."),
    ] = None,
    save_every: Annotated[str, typer.Option(metavar="TIME", help="Save the state so often.")] = "2m",
    settings: Settings = None,
) -> None:
    """Train a model.

    [bold]Examples[/bold]

      torchcaps train --model shared_capsnet --data mnist --epochs 3
      torchcaps train mnist-capsnet --out runs/first --budget 90m
      torchcaps train --resume --out runs/first
      torchcaps train recipes/mnist-capsnet.toml --set optimizer.lr=3e-4
      torchcaps train --model capsnet_small --data folder:photos
      torchcaps train --model matrix_capsnet_small --data smallnorb --data-dir PATH
      torchrun --nproc-per-node 2 -m torchcaps train mnist-capsnet
    """
    from torchcaps.cli.progress import make_progress
    from torchcaps.training import train as run_training
    from torchcaps.training.callbacks import parse_duration
    from torchcaps.training.recipe import Recipe

    if recipe and recipe_file:
        raise ValueError("the recipe is given twice: as an argument and with --recipe")
    name = recipe or recipe_file
    if resume and not name and not model:
        out = out or newest_state()
        known = out / "recipe.toml"
        if not known.is_file():
            raise ValueError(f"{out} holds no run to resume")
        chosen = Recipe.from_file(known)
        label = out.name
    else:
        chosen, label = choose(name, model, data)
    changes = list(settings or [])
    changes += [f"training.epochs={epochs}"] if epochs is not None else []
    changes += [f"seed={seed}"] if seed is not None else []
    changes += [f"data.dir={data_dir.absolute()}"] if data_dir is not None else []
    chosen = chosen.override(changes)
    result = run_training(
        chosen,
        out,
        name=label,
        resume=resume,
        budget=None if budget is None else parse_duration(budget),
        save_every=parse_duration(save_every),
        callbacks=[make_progress()],
    )
    if result["status"] == "interrupted":
        raise typer.Exit(INTERRUPTED)


def choose(name: str | None, model: str | None, data: str | None) -> tuple[Recipe, str]:
    """The recipe that the options mean, and a name for its run."""
    from torchcaps.training.recipe.defaults import default_recipe
    from torchcaps.training.recipe.files import load_recipe

    if name:
        chosen = load_recipe(name)
        changes = [f"model.name={model}"] * bool(model) + [f"data.name={data}"] * bool(data)
        return chosen.override(changes), Path(name).stem
    if not model or not data:
        raise ValueError("say what to train: a recipe, or --model and --data (see torchcaps train --help)")
    return default_recipe(model, data), f"{Path(data).name.replace(':', '-')}-{model}"


def newest_state() -> Path:
    """The run under `runs/` that was worked on last."""
    found = sorted(RUNS.glob("*/recipe.toml"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ValueError("there is no run in runs/ to resume: say which with --out")
    return found[-1].parent
