from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchcaps.cli.options import AsJson, DataDir, Settings, option_table


def data(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A data set or folder:PATH; without it, all are listed."),
    ] = None,
    split: Annotated[str, typer.Option(help="Which images to show.")] = "train",
    data_dir: DataDir = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="File for the contact sheet; by default NAME.png."),
    ] = None,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Download a data set, describe it, and draw a contact sheet.

    [bold]Examples[/bold]

      torchcaps data
      torchcaps data mnist
      torchcaps data folder:photos --set size=48 --out photos.png
      torchcaps data toys --set viewpoint=azimuth --split test_novel
    """
    import json

    from torchcaps.cli.tables import dataset_rows, print_dataset, print_datasets
    from torchcaps.data import contact_sheet, load

    if name is None:
        if as_json:
            typer.echo(json.dumps({"datasets": dataset_rows()}))
        else:
            print_datasets()
        return
    images = load(name, split, data_dir=data_dir, **option_table(settings))
    sheet = out or Path(f"{Path(name.partition(':')[2] or name).name}.png")
    contact_sheet(images, sheet)
    if as_json:
        facts = {
            "data": name,
            "split": split,
            "images": len(images),
            "in_channels": images.in_channels,
            "image_size": images.image_size,
            "classes": images.classes,
            "metadata": list(images.metadata),
            "contact_sheet": str(sheet),
        }
        typer.echo(json.dumps(facts))
        return
    print_dataset(name, split, images)
    typer.echo(f"contact sheet: {sheet}")
