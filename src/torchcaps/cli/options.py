"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

RUNS = Path("runs")

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set one option; may be repeated."),
]
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
