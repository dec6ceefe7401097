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

    [bold]Examples[/bold]

      torchcaps predict photo.png
      torchcaps predict digit.png --run capsnet_small-mnist
      torchcaps predict scans/*.jpg --run runs/mnist-shared_capsnet --invert
      torchcaps predict photo.png --json
    """
    import json

    from torchcaps.training.prediction import Predictor

    run = run or newest_run("last.safetensors")
    with import_hint(run):
        predictor = Predictor.load(run)
    for path, prediction in zip(images, predictor.files(images, invert=invert)):
        if as_json:
            result = {"file": str(path), "label": prediction.label, "scores": prediction.scores}
            typer.echo(json.dumps(result))
            continue
        best = list(prediction.scores.items())[: max(1, top)]
        typer.echo(f"{path}: " + ", ".join(f"{name} {score:.3f}" for name, score in best))
