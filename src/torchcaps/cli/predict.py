from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from torchcaps.cli.options import newest_run


def predict(
    images: Annotated[list[Path], typer.Argument(help="Image files of any kind and size.")],
    run: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="A run's folder, a weights file, or shipped weights by name; by default the newest run."
        ),
    ] = None,
    invert: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--invert/--no-invert",
            help="Swap dark and light; by default where ink on paper meets a model that learned the reverse.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="How many classes to show.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per image.")] = False,
) -> None:
    """Say what is on a picture.

    [bold]Examples[/bold]

      torchcaps predict photo.png
      torchcaps predict digit.png --run capsnet_small-mnist
      torchcaps predict scans/*.jpg --run runs/mnist-shared_capsnet --invert
      torchcaps predict photo.png --json
    """
    import json

    from torchcaps.training.prediction import Predictor

    predictor = Predictor.load(run or newest_run())
    for path, said in zip(images, predictor.files(images, invert=invert)):
        if as_json:
            typer.echo(json.dumps({"file": str(path), "label": said.label, "scores": said.scores}))
            continue
        best = list(said.scores.items())[: max(1, top)]
        typer.echo(f"{path}: " + ", ".join(f"{name} {score:.3f}" for name, score in best))
