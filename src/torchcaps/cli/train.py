from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torchcaps._machine import keep_freed_memory
from torchcaps.cli.imports import import_hint
from torchcaps.cli.options import DataDir, Settings, newest_run

LOGGER = logging.getLogger(__name__)
# The exit code of a program that Ctrl-C ended.
INTERRUPTED = 130

if TYPE_CHECKING:
    from torchcaps.training.recipe import Recipe


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="The name of a recipe, or a TOML file.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model; see torchcaps models.")] = None,
    data: Annotated[
        str | None,
        typer.Option(help="A data set, see torchcaps data; or folder:PATH for your own images."),
    ] = None,
    data_dir: DataDir = None,
    epochs: Annotated[int | None, typer.Option(help="Number of training epochs.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default a new one in runs/.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of weights and batches.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out, or the newest run.")
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Save and stop after this time, such as 45s, 90m or 1h30m."),
    ] = None,
    save_every: Annotated[str, typer.Option(metavar="TIME", help="Time between saves.")] = "2m",
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACKER", help="Send metrics to wandb, mlflow or tensorboard; may be repeated."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the recipe, with every key, as a TOML file, and train nothing."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line: begin, records, end.")
    ] = False,
    settings: Settings = None,
) -> None:
    """Train a model.

    [bold]Examples[/bold]

      torchcaps train --model shared_capsnet --data mnist --epochs 3
      torchcaps train mnist-capsnet --out runs/first --budget 90m
      torchcaps train --resume --out runs/first
      torchcaps train recipes/mnist-capsnet.toml --set optimizer.lr=3e-4
      torchcaps train --model capsnet_small --data folder:photos
      torchcaps train --model capsnet_small --data digits --dry-run > mine.toml
      torchcaps train --model norb_cnn --data smallnorb --data-dir norb
      torchcaps train mnist-capsnet --track wandb
      torchrun --nproc-per-node 2 -m torchcaps train mnist-capsnet
    """
    import json

    from torchcaps.cli.progress import JsonLines, make_progress
    from torchcaps.training import train as run_training
    from torchcaps.training.callbacks import parse_duration
    from torchcaps.training.recipe import Recipe
    from torchcaps.training.tracking import tracking_callbacks

    earlier: Path | None = None
    if resume and not recipe and not model:
        out = out or newest_run("recipe.toml")
        earlier = out / "recipe.toml"
        if not earlier.is_file():
            raise ValueError(f"{out} holds no run to resume")
    changes = list(settings or [])
    changes += [f"training.epochs={epochs}"] if epochs is not None else []
    changes += [f"seed={seed}"] if seed is not None else []
    changes += [f"data.dir={data_dir.absolute()}"] if data_dir is not None else []
    with import_hint(out) if resume and out else nullcontext():
        if earlier is not None:
            chosen, label = Recipe.from_file(earlier), earlier.parent.name
        else:
            chosen, label = choose_recipe(recipe, model, data, settings or [])
        effective = chosen.override(changes)
        if dry_run:
            typer.echo(json.dumps(effective.to_table()) if as_json else effective.to_toml())
            return
        keep_freed_memory()
        result = run_training(
            effective,
            out,
            name=label,
            resume=resume,
            budget=None if budget is None else parse_duration(budget),
            save_every=parse_duration(save_every),
            callbacks=[
                JsonLines() if as_json else make_progress(),
                *tracking_callbacks(track or [], effective),
            ],
        )
    if result["status"] == "interrupted":
        raise typer.Exit(INTERRUPTED)


def choose_recipe(
    name: str | None, model: str | None, data: str | None, settings: list[str]
) -> tuple[Recipe, str]:
    """The recipe that the options name, and a name for its run.

    Args:
        name: of a recipe, or its file.
        model: instead of the recipe's.
        data: instead of the recipe's.
        settings: `key=value` or `key=a,b`, which will be set; the loss of a model without a recipe depends on
            the routings among them.
    """
    from torchcaps.training.recipe.defaults import default_loss, default_recipe
    from torchcaps.training.recipe.files import load_recipe

    if name:
        recipe = load_recipe(name)
        changes = [f"model.name={model}"] * bool(model) + [f"data.name={data}"] * bool(data)
        return recipe.override(changes), Path(name).stem
    if not model or not data:
        raise ValueError("name a recipe, or both --model and --data (see torchcaps train --help)")
    routings = [
        routing.strip(" '\"")
        for key, _, values in (setting.partition("=") for setting in settings)
        if key.strip() == "model.options.routing"
        for routing in values.split(",")
    ]
    if not any(setting.partition("=")[0].strip() == "loss.name" for setting in settings):
        loss, reason = default_loss(model, routings)
        LOGGER.warning(f"loss: {loss}, {reason}; --set loss.name=NAME chooses another")
    return default_recipe(model, data, routings=routings), f"{Path(data).name.replace(':', '-')}-{model}"
