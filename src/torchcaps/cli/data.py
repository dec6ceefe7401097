from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from torchcaps.cli.options import DataDir, Settings, option_table


def data(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="NAME", help="A data set, or folder:PATH; without it, all are listed."),
    ] = None,
    split: Annotated[str, typer.Option(help="Which images to show.")] = "train",
    data_dir: DataDir = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="PNG", help="Where to draw the contact sheet; by default NAME.png."),
    ] = None,
    settings: Settings = None,
) -> None:
    """Fetch a data set, say what is in it, and draw a contact sheet.

    [bold]Examples[/bold]

      torchcaps data
      torchcaps data mnist
      torchcaps data folder:photos --set size=48 --out photos.png
      torchcaps data toys --set viewpoint=azimuth --split test_novel
    """
    from torchcaps.cli.tables import dataset_table, show_dataset
    from torchcaps.data import contact_sheet, load

    if name is None:
        dataset_table()
        return
    images = load(name, split, data_dir=data_dir, **option_table(settings))
    sheet = out or Path(f"{Path(name.partition(':')[2] or name).name}.png")
    contact_sheet(images, sheet)
    show_dataset(name, split, images)
    typer.echo(f"contact sheet: {sheet}")
