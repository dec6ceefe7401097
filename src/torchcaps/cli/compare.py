from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchcaps._machine import keep_freed_memory
from torchcaps.cli.options import RUNS, AsJson, DataDir
from torchcaps.cli.train import INTERRUPTED

if TYPE_CHECKING:
    from torchcaps.experiments.compare.forms import Form

RECORD = Path("results") / "compare.json"
FIGURE = Path("docs") / "compare"


def compare(
    routings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROUTING", help="Routings to compare; by default all, with --quick dynamic and em."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small data, no download, at most 5 minutes on 2 CPU cores."),
    ] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="MNIST and rendered toys, at most 8 minutes per training on one core."),
    ] = False,
    pose: Annotated[
        list[str] | None,
        typer.Option(help="Pose space; may be repeated. Default: that of each routing's paper."),
    ] = None,
    trunk: Annotated[
        list[str] | None,
        typer.Option(help="Trunk; may be repeated. Default: preact, with --quick conv6."),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="Compute only this part: digits, overlap, views or speed; may be repeated."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: 3, with --quick 2.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time limit for one training; default: 8, with --quick 2.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder; default: runs/compare or runs/compare-quick.")
    ] = None,
    data_dir: DataDir = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Compute nothing; draw the report of this folder again."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List routings, poses and trunks and exit.")] = False,
    as_json: AsJson = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help=f"Write all cells to {RECORD} and the figure to {FIGURE}.png; run it in a checkout.",
        ),
    ] = False,
) -> None:
    """Compare routings on the same trunk, data and budget, beside baselines.

    Average pooling, a dense layer and uniform routing on the same trunk are always in the table. A comparison
    that was stopped continues when the same command is run again; what is finished is not computed again. In
    a checkout, cells in results/compare.json count as finished.

    [bold]Examples[/bold]

      torchcaps compare --quick
      torchcaps compare em heinsen --full --pose matrix --seeds 5
      torchcaps compare --full --trunk preact --trunk resnet20
      torchcaps compare --report runs/compare
    """
    import json

    if show:
        from torchcaps.cli.tables import comparison_facts, print_comparison

        if as_json:
            typer.echo(json.dumps(comparison_facts()))
        else:
            print_comparison()
        return
    from torchcaps._extras import require

    # Checked before hours of training rather than when the figures are drawn.
    require("matplotlib", extra="figures", purpose="the report of a comparison")
    from torchcaps.experiments.compare.report import write_report

    if record and not RECORD.parent.is_dir():
        raise ValueError(f"there is no folder {RECORD.parent}/ here: run this in a checkout, without --out")
    status = "ended"
    if report is None:
        form = chosen_form(quick, full)
        if record:
            from torchcaps.experiments.compare.record import check_form

            check_form(RECORD, form.name)
        folder = out or RUNS / ("compare-quick" if quick else "compare")
        status = run(form, routings, pose, trunk, part, seeds, minutes, folder, data_dir, quiet=as_json)
    elif (
        quick or full or any(each is not None for each in (routings, pose, trunk, part, seeds, minutes, out))
    ):
        raise ValueError("--report draws a folder again as it is: it goes with --json and --record only")
    else:
        folder = report
    if status == "interrupted":
        words = continuing(routings, quick, pose, trunk, part, seeds, minutes, out, data_dir)
        typer.echo(f"Stopped; finished cells are kept. To continue: {shlex.join(words)}", err=as_json)
    try:
        table = write_report(folder)
    except ValueError:
        if status == "ended":
            raise
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps(table))
    else:
        show_table(folder)
    if record:
        from torchcaps.experiments.compare.record import record_comparison

        for path in record_comparison(folder, RECORD, FIGURE):
            typer.echo(f"wrote {path}", err=as_json)
    if status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def chosen_form(quick: bool, full: bool) -> Form:
    """The form that the flags name."""
    from torchcaps.experiments.compare.forms import FORMS

    if quick == full:
        raise ValueError(
            "give either --quick (small data, at most 5 minutes) or --full (MNIST and toys, several hours)"
        )
    return FORMS["quick" if quick else "full"]


def run(
    form: Form,
    routings: list[str] | None,
    poses: list[str] | None,
    trunks: list[str] | None,
    parts: list[str] | None,
    seeds: int | None,
    minutes: float | None,
    folder: Path,
    data_dir: Path | None,
    *,
    quiet: bool,
) -> str:
    """Compute all cells, with a bar on a terminal; returns `"ended"` or `"interrupted"`."""
    from torchcaps.cli.cells import CellProgress
    from torchcaps.experiments.compare.networks import choose_networks
    from torchcaps.experiments.compare.record import read_record
    from torchcaps.experiments.compare.run import compare as compute

    networks = choose_networks(routings or form.routings, poses or (), trunks or (form.trunk,))
    keep_freed_memory()
    limit = form.minutes if minutes is None else minutes
    with CellProgress(quiet=quiet, limit=60 * limit) as progress:
        return compute(
            form,
            networks,
            folder,
            seeds=seeds,
            minutes=limit,
            parts=parts or None,
            known=read_record(RECORD),
            data_dir=None if data_dir is None else str(data_dir.absolute()),
            progress=progress,
        )


def continuing(
    routings: list[str] | None,
    quick: bool,
    poses: list[str] | None,
    trunks: list[str] | None,
    parts: list[str] | None,
    seeds: int | None,
    minutes: float | None,
    out: Path | None,
    data_dir: Path | None,
) -> list[str]:
    """The command that continues a comparison.

    >>> continuing(["em"], True, ["matrix"], None, None, 2, None, None, None)
    ['torchcaps', 'compare', 'em', '--quick', '--pose', 'matrix', '--seeds', '2']
    """
    words = ["torchcaps", "compare", *(routings or []), "--quick" if quick else "--full"]
    for name, values in (("--pose", poses), ("--trunk", trunks), ("--part", parts)):
        words += [word for value in values or [] for word in (name, value)]
    options: list[tuple[str, Any]] = [("--seeds", seeds), ("--minutes", minutes), ("--out", out)]
    for name, value in [*options, ("--data-dir", data_dir)]:
        words += [] if value is None else [name, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def show_table(folder: Path) -> None:
    """Print the table of the report, and where the report is."""
    from torchcaps.cli.tables import plain_table, wide_console
    from torchcaps.experiments.compare.report import REPORT, main_table
    from torchcaps.experiments.compare.summary import summarize
    from torchcaps.experiments.framework.formatting import format_column

    summary = summarize(folder)
    table = main_table(summary)
    printed = plain_table(f"={table.columns[0]}", *(f">{column}" for column in table.columns[1:]))
    for row in zip(*map(format_column, zip(*table.rows))):
        printed.add_row(*row)
    console = wide_console()
    console.print(printed)
    for title, message in summary.failures:
        console.print(f"failed: {title}: {message}")
    console.print(f"\nreport: {folder / REPORT}")
