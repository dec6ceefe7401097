from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from torchcaps.cli.options import AsJson

PARTS = ("routings", "networks", "scaling")


def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PART", help="routings, networks or scaling; by default all three."),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Number of threads; by default PyTorch's own.")] = None,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Also measure torch.compile of the plain form.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where to measure: cpu, cuda or cuda:1.")] = "cpu",
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure each number for a short time, for a rough idea.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the numbers to FILE; other parts in it are kept."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of routings and networks, beside a matrix product.

    [bold]Examples[/bold]

      torchcaps bench --quick
      torchcaps bench networks --threads 2 --out bench.json
      TORCHCAPS_KERNELS=off torchcaps bench networks
      torchcaps bench --device cuda
    """
    import json

    import torch
    from rich.console import Console
    from rich.progress import track

    from torchcaps import bench as benchmark
    from torchcaps._checks import check_choice
    from torchcaps.bench.networks import NETWORKS
    from torchcaps.bench.routings import VARIANTS
    from torchcaps.cli.tables import number_table
    from torchcaps.routing import list_routings

    benchmark.check_device(device)
    chosen = [check_choice("part", part, PARTS) for part in parts or PARTS]
    if threads is not None:
        torch.set_num_threads(threads)
    budget = 0.2 if quick else 2.0
    forms = ("plain", "compiled", "fused") if compiled else ("plain", "fused")
    results: dict[str, Any] = {"machine": benchmark.machine(device)}
    console = Console(quiet=as_json)
    console.print(", ".join(f"{name} {value}" for name, value in results["machine"].items() if value))
    routings = sorted([*list_routings(), *VARIANTS])
    measure = {
        "routings": lambda: benchmark.routing_rows(routings, forms, budget=budget, device=device),
        "networks": lambda: benchmark.network_rows(NETWORKS, budget=2 * budget, device=device),
        "scaling": lambda: benchmark.scaling_rows(budget=budget, device=device),
    }
    for part in chosen:
        results[part] = list(track(measure[part](), description=part, console=console, transient=True))
        console.print(number_table(results[part]))
        console.print()
    if as_json:
        typer.echo(json.dumps(results))
    if out is not None:
        if out.exists():
            results = json.loads(out.read_text(encoding="utf-8")) | results
        out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        console.print(f"numbers in {out}")
