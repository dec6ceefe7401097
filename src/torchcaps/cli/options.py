"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

RUNS = Path("runs")

WEIGHTS_HELP = (
    "A run's folder, a folder of save_pretrained, a weights file, or the name of trained weights that "
    "torchcaps models lists"
)
"""What a command takes as a trained network."""

ImageFiles = Annotated[list[Path], typer.Argument(metavar="IMAGES", help="Image files of any size.")]
TrainedRun = Annotated[Path | None, typer.Option("--run", help=f"{WEIGHTS_HELP}; by default the newest run.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set one option; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="Folder to search first for the data set's files.",
    ),
]


def option_table(settings: list[str] | None) -> dict[str, Any]:
    """Options of a data set from `key=value` settings.

    >>> option_table(["size=16", "stereo=false"])
    {'size': 16, 'stereo': False}
    """
    from torchcaps.training.recipe.toml import parse_setting

    return dict(parse_setting(setting) for setting in settings or [])


def newest_run(file: str) -> Path:
    """The folder under `runs/` whose `file` was written last."""
    files = sorted(RUNS.glob(f"*/{file}"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise ValueError(f"there is no run with a {file} in {RUNS}/: train a model first, or name a run")
    return files[-1].parent
