from __future__ import annotations

from typing import Annotated

import typer


def models(
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    channels: Annotated[int, typer.Option(help="Channels of an image.")] = 1,
    size: Annotated[int, typer.Option(help="Height and width of an image.")] = 28,
) -> None:
    """List the models, their parameter counts, and the trained weights.

    [bold]Examples[/bold]

      torchcaps models
      torchcaps models --classes 5 --channels 2 --size 32
    """
    from torchcaps.cli.tables import print_models

    print_models(classes, channels, size)
