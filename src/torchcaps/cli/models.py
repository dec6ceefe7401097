from __future__ import annotations

from typing import Annotated

import typer

from torchcaps.cli.options import AsJson


def models(
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    channels: Annotated[int, typer.Option(help="Channels of an image.")] = 1,
    size: Annotated[int, typer.Option(help="Height and width of an image.")] = 28,
    as_json: AsJson = False,
) -> None:
    """List the models, their parameter counts, and the trained weights.

    [bold]Examples[/bold]

      torchcaps models
      torchcaps models --classes 5 --channels 2 --size 32
    """
    import json

    from torchcaps.cli.tables import model_rows, print_models

    if as_json:
        from torchcaps.models import list_pretrained

        rows = model_rows(classes, channels, size)
        typer.echo(json.dumps({"models": rows, "pretrained": list_pretrained()}))
        return
    print_models(classes, channels, size)
