from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchcaps._machine import keep_freed_memory
from torchcaps.cli.options import RUNS, AsJson, DataDir, Settings

if TYPE_CHECKING:
    from torchcaps.sweep.run import Sweep

INTERRUPTED = 130


def sweep(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="The name of a recipe, or a TOML file.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model; see torchcaps models.")] = None,
    data: Annotated[str | None, typer.Option(help="A data set, see torchcaps data.")] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B,...", help="The values of one setting; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each combination.")] = 3,
    search: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Let Optuna choose N combinations instead of running all; values may then be ranges, "
            "such as 1e-4..1e-1.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The sweep's folder; by default runs/sweep-RECIPE.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Number of training epochs.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Train a recipe with several values of its settings and several seeds.

    The combination that is best on validation images is the result. Calling the same
    command again skips finished runs and resumes others.

    [bold]Examples[/bold]

      torchcaps sweep mnist-capsnet-small --grid optimizer.lr=1e-3,3e-3
      torchcaps sweep --model shared_capsnet --data digits --epochs 3 \\
          --grid model.options.routing=dynamic,em --grid optimizer.lr=1e-3,1e-2
      torchcaps sweep digits-shared-capsnet --search 20 \\
          --grid optimizer.lr=1e-4..1e-1 --seeds 1
    """
    import json

    from torchcaps.cli.progress import make_progress
    from torchcaps.cli.train import choose_recipe
    from torchcaps.sweep.figure import draw_sweep
    from torchcaps.sweep.run import Sweep, SweepStoppedError
    from torchcaps.sweep.search import run_search
    from torchcaps.sweep.space import parse_space

    chosen, label = choose_recipe(recipe, model, data, [*(settings or []), *(grid or [])])
    changes = list(settings or [])
    changes += [f"training.epochs={epochs}"] if epochs is not None else []
    changes += [f"data.dir={data_dir.absolute()}"] if data_dir is not None else []
    space = parse_space(grid or [], ranges=search is not None)
    folder = out or RUNS / f"sweep-{label}"
    plan: Sweep = Sweep(
        chosen.override(changes),
        space,
        folder,
        seeds=seeds,
        callbacks=tuple if as_json else lambda: [make_progress(alone=False)],
        report=(lambda line: None) if as_json else typer.echo,
    )
    keep_freed_memory()
    try:
        summary = plan.run_grid() if search is None else run_search(plan, search)
    except SweepStoppedError:
        typer.echo("torchcaps: stopped; the same command continues the sweep", err=True)
        raise typer.Exit(INTERRUPTED) from None
    figure = draw_sweep(summary, folder / "sweep.png") if summary["best"] else None
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        print_summary(summary)
        typer.echo(f"{folder}: sweep.json" + (f", {figure.name}" if figure else ""))
    if summary["best"] is None:
        raise typer.Exit(1)


def print_summary(summary: dict[str, Any]) -> None:
    """Print the table, best combination first."""
    from torchcaps.cli.tables import plain_table, wide_console

    keys = list(summary["rows"][0]["values"])
    table = plain_table("", *(f"={key}" for key in keys), ">seeds", ">validation (%)", ">test (%)")
    for row in summary["rows"]:
        mark = "*" if row is summary["best"] else "!" if row["failures"] else ""
        cells = [str(row["values"][key]) for key in keys]
        count = len(row["validation"]["values"])
        table.add_row(
            mark, *cells, str(count), *(format_spread(row[name]) for name in ("validation", "test"))
        )
    wide_console().print(table)
    typer.echo("* best on validation images; ± is the standard deviation over seeds")
    for row in summary["rows"]:
        for seed, message in row["failures"].items():
            typer.echo(f"! {row['folder']} seed {seed}: {message}")


def format_spread(numbers: dict[str, Any]) -> str:
    """Mean and standard deviation in percent.

    >>> format_spread({"mean": 0.9876, "sd": 0.0012}), format_spread({"mean": None, "sd": None})
    ('98.76 ± 0.12', '-')
    """
    if numbers["mean"] is None:
        return "-"
    deviation = "" if numbers["sd"] is None else f" ± {100 * numbers['sd']:.2f}"
    return f"{100 * numbers['mean']:.2f}{deviation}"
