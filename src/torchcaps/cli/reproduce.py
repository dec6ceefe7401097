from __future__ import annotations

import shlex
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchcaps._machine import keep_freed_memory
from torchcaps.cli.options import RUNS, AsJson, DataDir
from torchcaps.cli.train import INTERRUPTED

if TYPE_CHECKING:
    from torchcaps.experiments.framework.queue import QueueResult
    from torchcaps.experiments.framework.study import Claim

FAILED = 1


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Name of the experiment; --list shows all names.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List all experiments and exit.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data, no download, at most 3 minutes on 2 CPU cores.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Run all experiments with several seeds, the shortest first.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="With --all: leave out what is finished, or with --record what is recorded, with the same "
            "settings.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder; default: runs/NAME. With --all: the folder of all of them."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of all random numbers; default: 0. With --record: put this seed on record."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Run the seeds 0 to N-1 and write one report: every number with mean and deviation.",
        ),
    ] = None,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Write the outcome to claims/NAME.json, and each seed that has ended to claims/seeds; seeds "
            "that are there are not run again. Run it in a checkout. Full form, at least 3 seeds; default: 5 "
            "for experiments under 10 minutes and for those about wholes, else 3. With --seed: that seed "
            "alone, so that several processes can share the work.",
        ),
    ] = False,
    data_dir: DataDir = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Save and stop after this time: 45s, 90m, 1h30m.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test a claim of the capsule papers: results next to the published numbers, figures and a report.

    An experiment that was stopped continues when the same command is run again.

    [bold]Examples[/bold]

      torchcaps reproduce --list
      torchcaps reproduce two-digits --quick
      torchcaps reproduce two-digits --budget 1h
      torchcaps reproduce two-digits --seeds 3 --record
      torchcaps reproduce two-digits --seed 2 --record
      torchcaps reproduce --all --resume --record --budget 8h
    """
    import json

    if show:
        from torchcaps.cli.tables import claim_rows, print_claims

        if as_json:
            typer.echo(json.dumps({"experiments": claim_rows()}))
        else:
            print_claims()
        return
    keep_freed_memory()
    check_options(name, every=every, resume=resume, seed=seed, seeds=seeds, record=record)
    from torchcaps._extras import require

    # Checked before hours of training rather than when the figures are drawn.
    require("matplotlib", extra="figures", purpose="the report of an experiment")
    from torchcaps.cli.progress import make_progress
    from torchcaps.cli.tables import wide_console
    from torchcaps.training.callbacks import Callback, parse_duration

    console = wide_console(soft_wrap=True, quiet=as_json)
    options: dict[str, Any] = {
        "quick": quick,
        "data_dir": None if data_dir is None else str(data_dir.absolute()),
        "budget": None if budget is None else parse_duration(budget),
        "make_callback": Callback if as_json else partial(make_progress, alone=False),
        "log": console.print,
    }
    again = partial(command, quick=quick, out=out, seed=seed, seeds=seeds, record=record, data_dir=data_dir)
    if name is None:
        queue = run_all(console, out or RUNS, seeds, record, resume, again("--all"), options)
        if as_json:
            typer.echo(json.dumps(asdict(queue)))
        end_queue(queue)
        return
    from torchcaps.experiments.listing import find_claim

    claim = find_claim(name)
    several = record or seeds is not None
    folder = out or RUNS / folder_name(name, quick=quick, several=several)
    console.print(f"{claim.name}: {claim.claim} → {folder}")
    if record and seed is not None:
        result = record_seed(claim, folder, seed, options)
        folder = folder / f"seed-{seed}"
    elif several:
        result = run_several(claim, folder, seeds, record, options)
    else:
        result = run_one(claim, folder, seed or 0, options)
    if result["status"] == "ended":
        if seed is not None and record:
            console.print(f"seed {seed} is on record; {again(name, seed=None)} joins all seeds")
        else:
            show_result(console, result, folder)
        if record and seed is None:
            from torchcaps.experiments.framework.record import record_claim

            console.print(f"recorded in {record_claim(claim, folder)}; torchcaps claims writes the pages")
    else:
        console.print(f"To continue: {again(name)}")
    if as_json:
        typer.echo(json.dumps({**result, "folder": str(folder)}))
    if result["status"] == "interrupted":
        raise typer.Exit(INTERRUPTED)


def check_options(
    name: str | None, *, every: bool, resume: bool, seed: int | None, seeds: int | None, record: bool
) -> None:
    """Refuse options that do not fit together, before anything is computed."""
    if (name is None) != every:
        raise ValueError(
            "give the name of an experiment or --all, not both; torchcaps reproduce --list shows all names"
        )
    if resume and not every:
        raise ValueError("--resume goes with --all: a single experiment always continues what was stopped")
    if seed is not None and (seeds is not None or every):
        raise ValueError("--seed runs one seed; --seeds and --all run the seeds from 0 on")
    if record and not Path("CLAIMS.md").is_file():
        raise ValueError(
            "there is no CLAIMS.md here: --record writes to claims/ of a checkout, so run it there"
        )


def folder_name(name: str, *, quick: bool, several: bool) -> str:
    """The folder of an experiment in `runs/`; several seeds have another one than a single seed.

    >>> folder_name("votes", quick=False, several=True), folder_name("votes", quick=True, several=False)
    ('votes-seeds', 'votes-quick')
    """
    return name + "-seeds" * several + "-quick" * quick


def run_one(claim: Claim, folder: Path, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Run one seed."""
    from torchcaps.experiments.framework.run import reproduce as run

    return run(claim, folder, seed=seed, **options)


def record_seed(claim: Claim, folder: Path, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Run one seed and put it on record; the outcome of the claim is written when all seeds are there."""
    from torchcaps.experiments.framework.record import CLAIMS, check_recordable
    from torchcaps.experiments.framework.seeds import FEWEST, run_seed

    check_recordable(claim, FEWEST, quick=options["quick"])
    return run_seed(claim, folder, seed, records=CLAIMS, **options)[0]


def run_several(
    claim: Claim, folder: Path, seeds: int | None, record: bool, options: dict[str, Any]
) -> dict[str, Any]:
    """Run several seeds, by default as many as a record needs."""
    from torchcaps.experiments.framework.record import CLAIMS, check_recordable
    from torchcaps.experiments.framework.seeds import reproduce_seeds, seeds_needed

    count = seeds_needed(claim) if seeds is None else seeds
    if record:
        check_recordable(claim, count, quick=options["quick"])
    return reproduce_seeds(claim, folder, seeds=count, records=CLAIMS if record else None, **options)


def run_all(
    console: Any,
    out: Path,
    seeds: int | None,
    record: bool,
    resume: bool,
    again: str,
    options: dict[str, Any],
) -> QueueResult:
    """Run all experiments, and say at the end what became of each."""
    from torchcaps.experiments.framework.queue import run_queue
    from torchcaps.experiments.framework.record import CLAIMS
    from torchcaps.experiments.listing import list_claims

    result = run_queue(
        list_claims(),
        lambda claim: out / folder_name(claim.name, quick=options["quick"], several=True),
        seeds=seeds,
        records=CLAIMS if record else None,
        resume=resume,
        **options,
    )
    show_queue(console, result)
    if result.left:
        console.print(f"To continue: {again} --resume")
    return result


def end_queue(result: QueueResult) -> None:
    """End the program with the exit code that fits what became of all experiments."""
    if result.status == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if result.failed:
        raise typer.Exit(FAILED)


def show_queue(console: Any, result: QueueResult) -> None:
    """Print which experiments have ended, were skipped, are left or failed."""
    for title, names in (
        ("ended", result.ended),
        ("skipped, finished before", result.skipped),
        ("left", result.left),
    ):
        if names:
            console.print(f"{title}: {', '.join(names)}")
    for name, message in result.failed.items():
        console.print(f"failed: {name}: {message}")


def command(
    name: str,
    *,
    quick: bool,
    out: Path | None,
    seed: int | None,
    data_dir: Path | None,
    seeds: int | None = None,
    record: bool = False,
) -> str:
    """The command that continues an experiment, or with `--all` as its name all of them.

    >>> command("votes", quick=True, out=Path("my votes"), seed=1, data_dir=None)
    "torchcaps reproduce votes --quick --out 'my votes' --seed 1"
    """
    words = ["torchcaps", "reproduce", name, *["--quick"] * quick]
    words += ["--out", str(out)] if out else []
    words += ["--seed", str(seed)] if seed is not None else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    words += ["--record"] * record
    return shlex.join(words + (["--data-dir", str(data_dir)] if data_dir else []))


def show_result(console: Any, result: dict[str, Any], folder: Path) -> None:
    """Print tables and verdicts, with numbers written as in the report, and the path of the report."""
    from torchcaps.cli.tables import plain_table
    from torchcaps.experiments.framework.formatting import cell_from_json, format_column, is_number

    for table in result["tables"]:
        console.print(f"\n[bold]{table['title']}[/bold]")
        rows = [[cell_from_json(cell) for cell in row] for row in table["rows"]]
        columns = list(zip(*rows)) or [() for _ in table["columns"]]
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
