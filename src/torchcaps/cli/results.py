from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

RESULTS, PAGE = Path("results"), Path("RESULTS.md")
CHECKOUT = Path(__file__).parents[3]


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
    from torchcaps.training.publish.page import HEAD, results_page
    from torchcaps.training.publish.record import record
    from torchcaps.training.publish.ship import ship as put

    if not runs and not RESULTS.is_dir():
        raise ValueError("there is no folder results/ here: run this in a checkout, or give a run")
    if PAGE.is_file() and not PAGE.read_text(encoding="utf-8").startswith(HEAD.splitlines()[0]):
        raise ValueError(f"{PAGE} here was not made by this command and would be lost: move it away first")
    if ship and not (CHECKOUT / "pyproject.toml").is_file():
        raise ValueError("--ship puts weights into a checkout of torchcaps; this one is installed")
    for run in runs or []:
        if ship:
            entry = put(run)
            error = 100 * entry["metrics"]["test"]["error"]
            typer.echo(f"{entry['file']}: {entry['bytes'] / 1e6:.1f} MB, error {error:.2f} %")
        typer.echo(f"{run} → {record(run, RESULTS)}")
    text = results_page(RESULTS)
    PAGE.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {PAGE}")
