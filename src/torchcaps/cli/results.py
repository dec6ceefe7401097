from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchcaps.cli.options import AsJson

RESULTS, PAGE = Path("results"), Path("RESULTS.md")
CHECKOUT = Path(__file__).parents[3]


def results(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="Folders of finished runs to add first."),
    ] = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Also copy their weights into the package, in half precision.")
    ] = False,
    variant: Annotated[
        str | None,
        typer.Option("--variant", help="With --ship: tells apart several weights of one model and data set."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write RESULTS.md from the records of runs in results/.

    [bold]Examples[/bold]

      torchcaps results
      torchcaps results runs/mnist-capsnet-small --ship
      torchcaps results runs/mnist-twin-em --ship --variant twin-em
    """
    import json

    from torchcaps.training.publish.page import HEAD, results_page
    from torchcaps.training.publish.record import record
    from torchcaps.training.publish.ship import ship as ship_weights

    if not runs and not RESULTS.is_dir():
        raise ValueError("there is no folder results/ here: run this in a checkout, or name a run")
    if PAGE.is_file() and not PAGE.read_text(encoding="utf-8").startswith(HEAD.splitlines()[0]):
        raise ValueError(f"{PAGE} was not written by this command and would be lost: move it away first")
    if ship and not (CHECKOUT / "pyproject.toml").is_file():
        raise ValueError("--ship copies weights into a checkout of torchcaps, but this copy is installed")
    if variant is not None and not (ship and len(runs or []) == 1):
        raise ValueError("--variant names the weights of one run, with --ship")
    say = (lambda line: None) if as_json else typer.echo
    shipped, records = [], []
    for run in runs or []:
        if ship:
            entry = ship_weights(run, variant=variant)
            error = 100 * entry["metrics"]["test"]["error"]
            say(f"{entry['file']}: {entry['bytes'] / 1e6:.1f} MB, error {error:.2f} %")
            shipped.append(entry["file"])
        records.append(str(record(run, RESULTS)))
        say(f"{run} → {records[-1]}")
    PAGE.write_text(results_page(RESULTS), encoding="utf-8")
    say(f"wrote {PAGE}")
    if as_json:
        typer.echo(json.dumps({"page": str(PAGE), "records": records, "shipped": shipped}))
