"""Options that several commands share, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

RUNS = Path("runs")

Settings = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads this at run time)
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Change one value; may be given many times."),
]
DataDir = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--data-dir", metavar="DIR", help="Where the data set's files are, if not in $TORCHCAPS_DATA."
    ),
]


def option_table(settings: list[str] | None) -> dict[str, Any]:
    """The table that `key=value` settings make.

    >>> option_table(["size=16", "stereo=false"])
    {'size': 16, 'stereo': False}
    """
    from torchcaps.training.recipe.toml import parse_value

    table = {}
    for setting in settings or []:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"a setting is written key=value, such as size=16; got {setting!r}")
        table[key.strip()] = parse_value(text.strip())
    return table


def newest_run() -> Path:
    """The run under `runs/` that was saved last."""
    saved = sorted(RUNS.glob("*/last.safetensors"), key=lambda path: path.stat().st_mtime)
    if not saved:
        raise ValueError(
            "there is no run in runs/ yet: train a model first, or name a run, or weights that "
            "torchcaps models lists"
        )
    return saved[-1].parent
