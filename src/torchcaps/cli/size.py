from __future__ import annotations

from typing import Annotated

import typer

from torchcaps.cli.options import AsJson


def size(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Name of a model; `torchcaps models` lists them.")
    ],
    batch: Annotated[int, typer.Option(help="Images per step.")] = 64,
    image: Annotated[int, typer.Option(help="Height and width of an image.")] = 32,
    channels: Annotated[int, typer.Option(help="Channels of an image.")] = 1,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    gpu: Annotated[
        str, typer.Option(metavar="NAME", help="Estimate times for this GPU, such as A100 or H100.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Count what a training step of a model needs, per layer, without running it.

    Parameters, operations, bytes moved and memory, in the plain and in the fused form. With --gpu, also the
    time at the peak rate and bandwidth of that GPU, which no program reaches.

    [bold]Examples[/bold]

      torchcaps size matrix_capsnet --batch 64 --image 32
      torchcaps size capsnet --batch 128 --image 28 --gpu A100
    """
    import json

    from torchcaps import bench
    from torchcaps.cli.tables import number_table, wide_console

    rows = bench.size_rows(model, batch=batch, image=image, channels=channels, classes=classes, gpu=gpu)
    if as_json:
        typer.echo(json.dumps({"model": model, "batch": batch, "layers": rows}))
    else:
        wide_console().print(number_table(rows))
