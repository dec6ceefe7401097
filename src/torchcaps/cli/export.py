from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchcaps.cli.imports import import_hint
from torchcaps.cli.options import WEIGHTS_HELP, AsJson


def export(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_OR_RUN",
            help=f"{WEIGHTS_HELP}.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The new file.")],
    format: Annotated[
        str | None, typer.Option(help="onnx or pt2; by default from the ending of --out.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Fix the number of images in a batch; by default any number.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a trained network to a file that runs without torchcaps.

    The file is checked: its scores differ from the network's by at most 0.00001.

    [bold]Examples[/bold]

      torchcaps export runs/mnist-capsnet --out digits.onnx
      torchcaps export capsnet_small-mnist --out digits.pt2
      torchcaps export runs/mine --format onnx --batch-size 1 --out net.onnx
    """
    import json

    from torchcaps.exporting import export as write

    with import_hint(model):
        exported = write(model, out, format=format, batch_size=batch_size)
    if as_json:
        facts = exported._asdict() | {"path": str(exported.path), "outputs": list(exported.outputs)}
        typer.echo(json.dumps(facts))
        return
    size = exported.path.stat().st_size / 1e6
    typer.echo(
        f"{exported.path}: {exported.format}, {size:.1f} MB, returns {', '.join(exported.outputs)}; "
        f"scores differ from the network's by at most {exported.difference:.1e}"
    )
