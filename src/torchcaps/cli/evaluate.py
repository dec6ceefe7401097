from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from torchcaps.cli.options import DataDir, Settings, newest_run, option_table

if TYPE_CHECKING:
    from torchcaps.training.datasets import Images


def evaluate(
    run: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(
            metavar="RUN",
            help="A run's folder, a weights file, or shipped weights by name; by default the newest run.",
        ),
    ] = None,
    data: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Another data set than the run's own, such as two_digits."),
    ] = None,
    data_dir: DataDir = None,
    split: Annotated[Optional[str], typer.Option(help="Which images; test by default.")] = None,  # noqa: UP045
    weights: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="last or best, in place of the one that the run reports."),
    ] = None,
    crops: Annotated[int, typer.Option(help="Average over CROPS² crops of each image.")] = 1,
    figure: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="PNG", help="Where to draw the confusion matrix."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    settings: Settings = None,
) -> None:
    """Test a trained model: accuracy, a table by class, a confusion matrix.

    [bold]Examples[/bold]

      torchcaps evaluate runs/mnist-shared_capsnet
      torchcaps evaluate shared_capsnet-mnist
      torchcaps evaluate runs/mnist-shared_capsnet --data two_digits --set overlap=4
      torchcaps evaluate runs/smallnorb --crops 3 --figure confusion.png
      torchcaps evaluate runs/azimuth --split test_novel --json
    """
    import json

    import torch

    from torchcaps.cli.tables import evaluation_tables
    from torchcaps.data.preprocess import Preprocess
    from torchcaps.models.weights import load_weights
    from torchcaps.training.evaluation import evaluate as test
    from torchcaps.training.prediction import find_weights

    run = run or newest_run()
    if weights not in (None, "last", "best"):
        raise ValueError(f"--weights is last or best, got {weights!r}")
    path = find_weights(run / f"{weights}.safetensors" if weights and run.is_dir() else run)
    model, card = load_weights(path)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    images = load_images(path, data, data_dir, split, option_table(settings))
    preprocess = Preprocess.from_options(card.preprocess)
    if images.image_size != card.image_size and model.any_size and preprocess.crop is None:
        preprocess = Preprocess(standardize=preprocess.standardize)
    evaluation = test(model, images, preprocess, crops=crops)
    if figure is not None:
        from torchcaps.plots import confusion_figure

        confusion_figure(
            evaluation, figure, title=f"{card.model} on {data or card.facts.get('data', 'data')}"
        )
    if as_json:
        typer.echo(json.dumps(evaluation.summary()))
        return
    evaluation_tables(evaluation)
    if figure is not None:
        typer.echo(f"confusion matrix: {figure}")


def load_images(
    weights: Path, data: str | None, data_dir: Path | None, split: str | None, options: dict[str, Any]
) -> Images:
    """The images to test on: another data set's, or those that the run or the package tested on."""
    from dataclasses import replace

    from torchcaps.data import load
    from torchcaps.models import list_pretrained, pretrained
    from torchcaps.training.recipe import Recipe
    from torchcaps.training.recipe.files import load_recipe
    from torchcaps.training.splits import eval_split, load_other, load_split

    recipe_file = weights.parent / "recipe.toml"
    recipe: Recipe | None = None
    if recipe_file.is_file():
        recipe = Recipe.from_file(recipe_file)
    elif weights.resolve().parent == pretrained.FOLDER:
        recipes = {each["file"]: each["recipe"] for each in list_pretrained()}
        recipe = load_recipe(recipes[weights.name])
    if recipe is not None and data_dir is not None:
        recipe = replace(recipe, data=replace(recipe.data, dir=str(data_dir)))
    if recipe is None or (data and (options or split)):
        if not data:
            raise ValueError(f"{recipe_file} is not there: say what to test on with --data")
        return load(data, split or "test", data_dir=data_dir, **options)
    if data and data != recipe.data.name:
        return load_other(recipe, data)
    part = replace(recipe.data, options={**recipe.data.options, **options})
    return load_split(part, split or eval_split(part))
