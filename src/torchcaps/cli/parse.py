from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchcaps.cli.imports import import_hint
from torchcaps.cli.options import ImageFiles, TrainedRun, newest_run

# Pixels along the shorter side of the picture in a figure, and the most along the longer one.
DRAWN_SIDE = 480
LONGEST_DRAWN = 2048


def parse(
    images: ImageFiles,
    run: TrainedRun = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for NAME-parse.png and NAME-parse.json of each image.")
    ] = Path(),
    threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Least presence of a class, a whole or a loose part; "
            "parts_capsnet finds no whole below 0.5.",
        ),
    ] = 0.5,
    children: Annotated[int, typer.Option(min=1, help="Capsules to show below another.")] = 3,
    size: Annotated[
        int | None,
        typer.Option(
            min=8,
            help="Scale pictures to so many pixels along the shorter side, for networks that read any size; "
            "by default as many as in training, and 1.5 times as many for parts_capsnet. At most 16 times "
            "the pixels of a training image are read.",
        ),
    ] = None,
    invert: Annotated[
        bool | None,
        typer.Option(
            "--invert/--no-invert",
            help="Swap dark and light; by default where the image has a light background "
            "and the training images a dark one, or the reverse.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per image instead of the tree.")
    ] = False,
) -> None:
    """Show what a capsule network found in image files, and what belongs to what.

    Prints a tree for each image, and writes it as a figure and as JSON. Places are in pixels of the image
    file. A file that cannot be read is named
    on standard error; the others are parsed, and the exit code is 1.

    [bold]Examples[/bold]

      torchcaps parse drawing.png --run runs/shapes-parts_capsnet
      torchcaps parse digit.png --run capsnet_small-mnist --out trees
      torchcaps parse scans/*.png --run weights.safetensors --threshold 0.7 --json
    """
    import json

    from torchcaps._files import replaced_on_success
    from torchcaps.data.formats.images import open_image, read_image, upright_shape
    from torchcaps.errors import DataError
    from torchcaps.parsing import Names
    from torchcaps.parsing import parse as parse_images
    from torchcaps.parsing.pictures import in_picture, seen_part
    from torchcaps.training.prediction import Predictor

    run = run or newest_run("last.safetensors")
    with import_hint(run):
        predictor = Predictor.load(run)
    names = Names.of_card(predictor.card)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--out {out} must be a folder, and there is a file of that name") from None
    complete = True
    for path, stem in zip(images, unique_stems(images)):
        try:
            shape = predictor.full_shape(path, size)
            raw = predictor.read(path, invert=invert, shape=shape)
            with open_image(path) as file:
                full = upright_shape(file)
        except DataError as error:
            typer.echo(f"torchcaps: {error}", err=True)
            complete = False
            continue
        pixels = predictor.preprocess.test(raw.unsqueeze(0))
        (tree,) = parse_images(predictor.model, pixels, names=names, threshold=threshold, children=children)
        tree = in_picture(tree, full, seen_part(full, shape, predictor.card.pad))
        table = {"file": str(path), "read_size": list(shape), **tree.to_dict()}
        # The picture as it came, in its own colors.
        picture = read_image(path, drawn_shape(full), gray=False)
        with replaced_on_success(out / f"{stem}-parse.png") as target:
            tree.draw(picture).savefig(target, format="png")
        with replaced_on_success(out / f"{stem}-parse.json") as target:
            target.write_text(json.dumps(table, indent=1), encoding="utf-8")
        if as_json:
            typer.echo(json.dumps(table))
        else:
            typer.echo(f"{path}: {tree}")
    if not complete:
        raise typer.Exit(1)


def drawn_shape(full: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the picture in a figure.

    >>> drawn_shape((60, 90)), drawn_shape((1, 300))
    ((480, 720), (7, 2048))
    """
    factor = min(DRAWN_SIDE / min(full), LONGEST_DRAWN / max(full))
    return max(1, round(factor * full[0])), max(1, round(factor * full[1]))


def unique_stems(paths: list[Path]) -> list[str]:
    """The name of each file without its suffix, with a number where it occurs again.

    >>> unique_stems([Path("a/boat.png"), Path("b/boat.jpg"), Path("house.png")])
    ['boat', 'boat-2', 'house']
    """
    stems: list[str] = []
    for number, path in enumerate(paths):
        before = sum(other.stem == path.stem for other in paths[:number])
        stems.append(f"{path.stem}-{before + 1}" if before else path.stem)
    return stems
