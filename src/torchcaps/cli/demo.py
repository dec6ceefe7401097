from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchcaps._machine import keep_freed_memory
from torchcaps.cli.options import AsJson


def demo(
    epochs: Annotated[int, typer.Option(help="Number of training epochs.")] = 60,
    seed: Annotated[int, typer.Option(help="Random seed of weights and batches.")] = 0,
    figure: Annotated[Path, typer.Option(metavar="PNG", help="File for the figure.")] = Path("demo.png"),
    as_json: AsJson = False,
) -> None:
    """Train capsules on single digits, then let them read two: about two minutes.

    [bold]Example[/bold]

      torchcaps demo --figure two-digits.png
    """
    import json

    from torchcaps.demo import run_demo

    keep_freed_memory()
    accuracy = run_demo(epochs=epochs, seed=seed, figure=figure, quiet=as_json)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "epochs": epochs,
                    "seed": seed,
                    "percent": accuracy,
                    "figure": str(figure) if figure.is_file() else None,
                }
            )
        )
