from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = 60,
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    figure: Annotated[Path, typer.Option(metavar="PNG", help="Where to draw the result.")] = Path("demo.png"),
) -> None:
    """Watch capsules read two digits though they were trained on one: no download, about a minute.

    [bold]Example[/bold]

      torchcaps demo --figure two-digits.png
    """
    from torchcaps.demo import run_demo

    run_demo(epochs=epochs, seed=seed, figure=figure)
