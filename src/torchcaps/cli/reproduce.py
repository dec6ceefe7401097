from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from torchcaps.cli.train import INTERRUPTED, RUNS


def reproduce(
    name: Annotated[str | None, typer.Argument(help="The experiment; --list shows them.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show all experiments.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data, nothing to fetch, at most 3 minutes on 2 cores.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Its folder; by default in runs/.")] = None,
    seed: Annotated[int, typer.Option(help="Of every random number.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where data sets lie, if not in $TORCHCAPS_DATA.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after 90m, 1h30m, 45s …, saved.")
    ] = None,
) -> None:
    """Try a claim of the papers: numbers beside the published ones, figures, and a report.

    What an interrupted experiment has done is kept: the same command goes on.

    [bold]Examples[/bold]

      torchcaps reproduce --list
      torchcaps reproduce two-digits --quick
      torchcaps reproduce two-digits --budget 1h
    """
    if show:
        from torchcaps.cli.tables import claim_table

        claim_table()
        return
    if name is None:
        raise ValueError("say which experiment (torchcaps reproduce --list shows them)")
    from torchcaps._extras import require

    # Checked before hours of training rather than when the figures are drawn.
    require("matplotlib", extra="figures", purpose="the report of an experiment")
    from torchcaps.cli.progress import make_progress
    from torchcaps.cli.tables import wide_console
    from torchcaps.experiments.listing import find_claim
    from torchcaps.experiments.workbench.running import reproduce as run
    from torchcaps.training.callbacks import parse_duration

    console = wide_console(soft_wrap=True)
    claim = find_claim(name)
    folder = out or RUNS / (f"{name}-quick" if quick else name)
    console.print(f"{claim.name}: {claim.claim} → {folder}")
    result = run(
        claim,
        folder,
        quick=quick,
        seed=seed,
        data_dir=None if data_dir is None else str(data_dir.absolute()),
        budget=None if budget is None else parse_duration(budget),
        watch=partial(make_progress, alone=False),
        say=console.print,
    )
    if result["status"] == "ended":
        show_result(console, result, folder)
        return
    console.print(f"Go on with: {command(name, quick=quick, out=out, seed=seed, data_dir=data_dir)}")
    if result["status"] == "interrupted":
        raise typer.Exit(INTERRUPTED)


def command(name: str, *, quick: bool, out: Path | None, seed: int, data_dir: Path | None) -> str:
    """What to type to go on with an experiment.

    >>> command("votes", quick=True, out=Path("my votes"), seed=1, data_dir=None)
    "torchcaps reproduce votes --quick --out 'my votes' --seed 1"
    """
    words = ["torchcaps", "reproduce", name, *["--quick"] * quick]
    words += ["--out", str(out)] if out else []
    words += ["--seed", str(seed)] if seed else []
    return shlex.join(words + (["--data-dir", str(data_dir)] if data_dir else []))


def show_result(console: Any, result: dict[str, Any], folder: Path) -> None:
    """Print the tables and verdicts, and where the report lies."""
    from torchcaps.cli.tables import number_table

    for table in result["tables"]:
        console.print(f"\n[bold]{table['title']}[/bold]")
        rows = [
            {column: "–" if cell is None else cell for column, cell in zip(table["columns"], row)}
            for row in table["rows"]
        ]
        console.print(number_table(rows))
    for verdict in result["verdicts"]:
        console.print(f"\n[bold]{verdict['heading']}.[/bold] {verdict['sentence']}")
    console.print(f"\nData: {result['data']}")
    console.print(f"{result['seconds']:.0f} s; report: {folder / 'report.html'}")
