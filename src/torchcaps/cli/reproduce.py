from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from torchcaps.cli.train import INTERRUPTED, RUNS


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Name of the experiment; --list shows all names.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List all experiments and exit.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data, no download, at most 3 minutes on 2 CPU cores.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Output folder; default: runs/NAME.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the data sets; default: $TORCHCAPS_DATA."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Save and stop after this time: 45s, 90m, 1h30m.")
    ] = None,
) -> None:
    """Test a claim of the capsule papers: results next to the published numbers, figures and a report.

    An experiment that was stopped continues when the same command is run again.

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
        raise ValueError("give the name of an experiment; torchcaps reproduce --list shows all names")
    from torchcaps._extras import require

    # Checked before hours of training rather than when the figures are drawn.
    require("matplotlib", extra="figures", purpose="the report of an experiment")
    from torchcaps.cli.progress import make_progress
    from torchcaps.cli.tables import wide_console
    from torchcaps.experiments.framework.run import reproduce as run
    from torchcaps.experiments.listing import find_claim
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
        make_callback=partial(make_progress, alone=False),
        log=console.print,
    )
    if result["status"] == "ended":
        show_result(console, result, folder)
        return
    console.print(f"To continue: {command(name, quick=quick, out=out, seed=seed, data_dir=data_dir)}")
    if result["status"] == "interrupted":
        raise typer.Exit(INTERRUPTED)


def command(name: str, *, quick: bool, out: Path | None, seed: int, data_dir: Path | None) -> str:
    """The command that continues an experiment.

    >>> command("votes", quick=True, out=Path("my votes"), seed=1, data_dir=None)
    "torchcaps reproduce votes --quick --out 'my votes' --seed 1"
    """
    words = ["torchcaps", "reproduce", name, *["--quick"] * quick]
    words += ["--out", str(out)] if out else []
    words += ["--seed", str(seed)] if seed else []
    return shlex.join(words + (["--data-dir", str(data_dir)] if data_dir else []))


def show_result(console: Any, result: dict[str, Any], folder: Path) -> None:
    """Print tables and verdicts, with numbers written as in the report, and the path of the report."""
    from torchcaps.cli.tables import plain_table
    from torchcaps.experiments.framework.formatting import format_column, is_number

    for table in result["tables"]:
        console.print(f"\n[bold]{table['title']}[/bold]")
        columns = list(zip(*table["rows"])) or [() for _ in table["columns"]]
        printed = plain_table(
            *(
                f">{name}" if any(map(is_number, cells)) else name
                for name, cells in zip(table["columns"], columns)
            )
        )
        for row in zip(*map(format_column, columns)):
            printed.add_row(*row)
        console.print(printed)
    for verdict in result["verdicts"]:
        console.print(f"\n[bold]{verdict['heading']}.[/bold] {verdict['sentence']}")
    console.print(f"\nData: {result['data']}")
    console.print(f"{result['seconds']:.0f} s; report: {folder / 'report.html'}")
