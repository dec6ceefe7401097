from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

RESULTS, PAGE = Path("results"), Path("RESULTS.md")


def results(
    runs: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(metavar="RUN", help="Folders of ended runs to take in first."),
    ] = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Put their weights into the package as well, in half precision.")
    ] = False,
) -> None:
    """Make RESULTS.md from results/*.json, which runs alone have written.

    [bold]Examples[/bold]

      torchcaps results
      torchcaps results runs/mnist-capsnet-small --ship
    """
    from torchcaps.training.results_page import results_page
    from torchcaps.training.zoo import record
    from torchcaps.training.zoo import ship as put

    for run in runs or []:
        typer.echo(f"{run} → {record(run, RESULTS)}")
        if ship:
            entry = put(run)
            error = 100 * entry["metrics"]["test"]["error"]
            typer.echo(f"{entry['file']}: {entry['bytes'] / 1e6:.1f} MB, error {error:.2f} %")
    if not RESULTS.is_dir():
        raise ValueError("there is no folder results/ here: run this in a checkout, or give a run")
    PAGE.write_text(results_page(RESULTS), encoding="utf-8")
    typer.echo(f"wrote {PAGE}")
