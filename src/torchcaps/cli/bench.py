from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer


class Part(str, Enum):
    """What to measure."""

    routings = "routings"
    networks = "networks"
    scaling = "scaling"


def bench(
    parts: Annotated[
        list[Part] | None, typer.Argument(help="What to measure; everything by default.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; as many as PyTorch takes by default.")] = None,
    compiled: Annotated[bool, typer.Option(help="Measure torch.compile of the plain form too.")] = False,
    quick: Annotated[bool, typer.Option(help="One short look per figure, for a first idea.")] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures there; other parts there stay.")
    ] = None,
) -> None:
    """Measure routings, networks and how the cost grows, held against the matrix product of the same moment.

    [bold]Examples[/bold]

      torchcaps bench --quick
      torchcaps bench networks --threads 2 --json bench.json
      TORCHCAPS_KERNELS=off torchcaps bench networks       without the fused kernels
    """
    import json as json_format

    import torch
    from rich.console import Console
    from rich.progress import track

    from torchcaps import bench as benchmark
    from torchcaps.bench.networks import NETWORKS
    from torchcaps.cli.tables import figures_table
    from torchcaps.routing import list_routings

    if threads is not None:
        torch.set_num_threads(threads)
    budget = 0.2 if quick else 2.0
    forms = ("plain", "compiled", "fused") if compiled else ("plain", "fused")
    measured: dict[str, Any] = {"machine": benchmark.machine()}
    console = Console()
    console.print(", ".join(f"{name} {value}" for name, value in measured["machine"].items() if value))
    makers = {
        Part.routings: lambda: benchmark.routing_rows(list_routings(), forms, budget=budget),
        Part.networks: lambda: benchmark.network_rows(NETWORKS, budget=2 * budget),
        Part.scaling: lambda: benchmark.scaling_rows(budget=budget),
    }
    for part in parts or list(Part):
        rows = list(track(makers[part](), description=part.value, console=console, transient=True))
        measured[part.value] = rows
        console.print(figures_table(rows))
        console.print()
    if json is not None:
        if json.exists():
            measured = json_format.loads(json.read_text(encoding="utf-8")) | measured
        json.write_text(json_format.dumps(measured, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        console.print(f"figures in {json}")
