from __future__ import annotations

from typing import Annotated

import typer

from torchcaps.cli.imports import import_hint
from torchcaps.cli.options import ImageFiles, TrainedRun, newest_run


def predict(
    images: ImageFiles,
    run: TrainedRun = None,
    invert: Annotated[
        bool | None,
        typer.Option(
            "--invert/--no-invert",
            help="Swap dark and light; by default where the image has a light background "
            "and the training images a dark one, or the reverse.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="How many classes to show.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per image.")] = False,
) -> None:
    """Classify image files.

    A file that cannot be read is named on standard error; the others are classified, and the exit code is 1.

    [bold]Examples[/bold]

      torchcaps predict photo.png
      torchcaps predict digit.png --run capsnet_small-mnist
      torchcaps predict scans/*.jpg --run runs/mnist-shared_capsnet --invert
      torchcaps predict photo.png --json
    """
    import json

    import torch

    from torchcaps.errors import DataError
    from torchcaps.training.prediction import Predictor

    run = run or newest_run("last.safetensors")
    with import_hint(run):
        predictor = Predictor.load(run)
    readable, pixels = [], []
    for path in images:
        try:
            pixels.append(predictor.read(path, invert=invert))
        except DataError as error:
            typer.echo(f"torchcaps: {error}", err=True)
        else:
            readable.append(path)
    predictions = predictor(torch.stack(pixels)) if pixels else []
    for path, prediction in zip(readable, predictions):
        if as_json:
            result = {"file": str(path), "label": prediction.label, "scores": prediction.scores}
            typer.echo(json.dumps(result))
            continue
        best = list(prediction.scores.items())[: max(1, top)]
        typer.echo(f"{path}: " + ", ".join(f"{name} {score:.3f}" for name, score in best))
    if len(readable) < len(images):
        raise typer.Exit(1)
