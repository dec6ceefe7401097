from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchcaps.cli.imports import import_hint
from torchcaps.cli.options import WEIGHTS_HELP, AsJson, DataDir, Settings, newest_run, option_table

if TYPE_CHECKING:
    from torchcaps.training.data import Images


def evaluate(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help=f"{WEIGHTS_HELP}; by default the newest run.",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Another data set than the run's own, such as two_digits.")
    ] = None,
    data_dir: DataDir = None,
    split: Annotated[str | None, typer.Option(help="Which images; by default the test images.")] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="best|last", help="Which of the run's weights; by default as predict does."),
    ] = None,
    crops: Annotated[int, typer.Option(help="Average over CROPS² crops of each image.")] = 1,
    figure: Annotated[
        Path | None, typer.Option(metavar="PNG", help="File for a figure of the confusion matrix.")
    ] = None,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Test a trained model: accuracy, metrics per class, a confusion matrix.

    The confusion matrix is printed for up to 12 classes; --json and --figure have it for any number.
    There is none for images with several labels, such as those of two_digits.

    [bold]Examples[/bold]

      torchcaps evaluate runs/mnist-shared_capsnet
      torchcaps evaluate shared_capsnet-mnist
      torchcaps evaluate runs/mnist-shared_capsnet --data two_digits -s overlap=4
      torchcaps evaluate runs/smallnorb --crops 3 --figure confusion.png
      torchcaps evaluate runs/azimuth --split test_novel --json
    """
    import json

    import torch

    from torchcaps.cli.tables import print_evaluation
    from torchcaps.data.preprocess import Preprocess
    from torchcaps.models.weights import load_weights
    from torchcaps.training.evaluation import evaluate as evaluate_model

    path = choose_weights(run or newest_run("last.safetensors"), weights)
    with import_hint(path):
        model, card = load_weights(path)
        images = load_images(path, data, data_dir, split, option_table(settings))
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    preprocess = Preprocess.from_options(card.preprocess)
    if images.image_size != card.image_size and model.any_size and preprocess.crop is None:
        preprocess = Preprocess(standardize=preprocess.standardize)
    evaluation = evaluate_model(model, images, preprocess, crops=crops)
    if figure is not None:
        from torchcaps.plots import confusion_figure

        name = data or card.facts.get("data", "data")
        confusion_figure(evaluation, figure, title=f"{card.model} on {name}")
    if as_json:
        typer.echo(json.dumps(evaluation.details()))
        return
    print_evaluation(evaluation)
    if figure is not None:
        typer.echo(f"confusion matrix: {figure}")


def choose_weights(run: Path, choice: str | None) -> Path:
    """The weights file to evaluate: the one that `predict` uses, unless `choice` names another."""
    from torchcaps._checks import check_choice
    from torchcaps.training.prediction import find_weights

    if choice is None:
        return find_weights(run)
    path = run / f"{check_choice('--weights', choice, ('best', 'last'))}.safetensors"
    if not path.is_file():
        raise ValueError(f"--weights {choice}: there is no {path}")
    return path


def load_images(
    weights: Path, data: str | None, data_dir: Path | None, split: str | None, options: dict[str, Any]
) -> Images:
    """Load the images to test on.

    Args:
        weights: the weights file; the recipe beside it, or the one it was trained with, names the data set.
        data: another data set.
        data_dir: folder with the data set's files.
        split: another split than the one for tests.
        options: options of the data set.
    """
    from dataclasses import replace

    from torchcaps.data import load
    from torchcaps.models import list_pretrained, pretrained
    from torchcaps.models.weights import OBJECT
    from torchcaps.training.data import eval_split, load_other, load_split
    from torchcaps.training.recipe import Recipe
    from torchcaps.training.recipe.files import list_recipes, load_recipe

    recipe_file = weights.parent / "recipe.toml"
    recipe: Recipe | None = None
    if recipe_file.is_file():
        recipe = Recipe.from_file(recipe_file)
    elif weights.resolve().parent == pretrained.FOLDER:
        entry = next(each for each in list_pretrained() if each["file"] == weights.name)
        if entry["recipe"] in list_recipes():
            recipe = load_recipe(entry["recipe"])
        elif not data:
            source = entry["load"]
            return load(source["name"], split or source["split"], **{**source["options"], **options})
    if recipe is not None and recipe.data.name.startswith(OBJECT):
        if not data:
            raise ValueError(
                f"{weights.parent} was trained by torchcaps.fit on data that were given as an object: name "
                "the data set to test on, such as --data folder:PATH, or --data digits -s size=16"
            )
        recipe = None
    if recipe is not None and data_dir is not None:
        recipe = replace(recipe, data=replace(recipe.data, dir=str(data_dir)))
    if recipe is None or (data and (options or split)):
        if not data:
            raise ValueError(f"there is no {recipe_file}: name the data set to test on with --data")
        return load(data, split or "test", data_dir=data_dir, **options)
    if data and data != recipe.data.name:
        return load_other(recipe, data)
    part = replace(recipe.data, options={**recipe.data.options, **options})
    return load_split(part, split or eval_split(part))
