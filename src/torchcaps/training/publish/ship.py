"""Weights that come with the package: how a run's are added, and how the index of them is checked."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from torchcaps._files import digest, replaced_on_success
from torchcaps.data.preprocess import Preprocess
from torchcaps.errors import RunError
from torchcaps.models import Model, list_pretrained
from torchcaps.models.pretrained import FOLDER, MAX_BYTES
from torchcaps.models.weights import ModelCard, load_weights, write_tensors
from torchcaps.training.data import Images, eval_split, first_images, load_other, load_split
from torchcaps.training.evaluation import evaluate
from torchcaps.training.prediction import predict
from torchcaps.training.publish.record import read_result, recipe_name
from torchcaps.training.recipe import Recipe
from torchcaps.training.task import final_tests

# Number of test images, from the first on, that are used to check shipped weights.
SAMPLE = 500
# What an entry of the index keeps of the result of its run.
TRAINED = ("sha256", "epochs", "seconds")


def ship(run: str | Path, folder: Path = FOLDER, *, variant: str | None = None) -> dict[str, Any]:
    """Add a run's weights to the package, in half precision, and test them.

    Half precision halves the download; the numbers in the index are those of the halved weights. Nothing in
    the package changes until all tests are done.

    Args:
        run: folder of a run that has ended, made from a recipe that comes with torchcaps.
        folder: of the weights, with its `index.json`.
        variant: tells apart several weights of one model and data set: they are named `data-variant`.

    Returns:
        The entry of the index; its `data` is the name of the weights, `load` has that of the data set.

    Raises:
        RunError: the run has not ended, no shipped recipe makes it, or the weights are too large.
    """
    run = Path(run).resolve()
    result, recipe = read_result(run), Recipe.from_file(run / "recipe.toml")
    source = recipe_name(recipe)
    if source is None:
        raise RunError(f"{run}: no recipe that comes with torchcaps makes this run, so nobody could check it")
    model, card = load_weights(run / result["model"])
    halves = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in model.state_dict().items()
    }
    if not all(bool(tensor.isfinite().all()) for tensor in halves.values()):
        raise RunError(f"{run}: some weights are too large for half precision")
    data = recipe.data.name if variant is None else f"{recipe.data.name}-{variant}"
    file = f"{recipe.model.name}-{data}.safetensors"
    with TemporaryDirectory() as temporary_folder:
        written = Path(temporary_folder) / file
        write_tensors(written, halves, asdict(replace(card, facts={"data": data, "recipe": source})))
        check_room(file, written.stat().st_size, folder)
        model, card = load_weights(written)
        entry = {
            "model": recipe.model.name,
            "data": data,
            "file": file,
            "sha256": digest(written),
            "num_params": sum(parameter.numel() for parameter in model.parameters()),
            "bytes": written.stat().st_size,
            "recipe": source,
            "trained": {name: result[name] for name in TRAINED},
            "metrics": evaluate_all(model, card, recipe),
            "sample": sample_of(model, card, load_split(recipe.data, eval_split(recipe.data))),
            "load": {
                "name": recipe.data.name,
                "split": eval_split(recipe.data),
                "options": recipe.data.options,
            },
        }
        with replaced_on_success(folder / file) as temporary:
            temporary.write_bytes(written.read_bytes())
    keep_entry(entry, folder)
    return entry


def check_room(file: str, size: int, folder: Path) -> None:
    """Refuse weights that would make the package larger than `MAX_BYTES`."""
    others = sum(path.stat().st_size for path in folder.glob("*.safetensors") if path.name != file)
    if others + size > MAX_BYTES:
        raise RunError(
            f"{file} has {size / 1e6:.1f} MB: all weights would be {(others + size) / 1e6:.1f} MB, and "
            f"{MAX_BYTES / 1e6:.0f} are allowed"
        )


def evaluate_all(model: Model, card: ModelCard, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The tests that the result of the run has, of this model."""
    images = load_split(recipe.data, eval_split(recipe.data))
    extra = {name: load_other(recipe, name) for name in recipe.evaluation.extra_datasets}
    tests = final_tests(recipe, Preprocess.from_options(card.preprocess), images, extra)
    return {
        test.name: evaluate(model, test.images, test.preprocess, crops=test.crops).summary() for test in tests
    }


def sample_of(model: Model, card: ModelCard, images: Images) -> dict[str, Any]:
    """What a check of the weights computes again on the first `SAMPLE` test images.

    How many are right, the mean of the highest score, and the error of reconstructions if there are any: the
    first alone would not show small changes, nor changes in a decoder.
    """
    some = images.select(torch.arange(min(SAMPLE, len(images))))
    evaluation = evaluate(model, some, Preprocess.from_options(card.preprocess))
    scores = predict(
        model, Preprocess.from_options(card.preprocess).test(first_images(some, SAMPLE)[0])
    ).scores
    sample = {
        "count": evaluation.count,
        "right": round(evaluation.accuracy * evaluation.count),
        "score": round(float(scores.amax(1).mean()), 6),
    }
    if evaluation.reconstruction is not None:
        sample["reconstruction"] = round(evaluation.reconstruction, 4)
    return sample


def keep_entry(entry: dict[str, Any], folder: Path) -> None:
    """Write an entry to the index, in place of an older one for the same file."""
    path = folder / "index.json"
    others = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    kept = [other for other in others if other["file"] != entry["file"]]
    entries = sorted([*kept, entry], key=lambda each: each["file"])
    with replaced_on_success(path) as temporary:
        temporary.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def check_shipped(model: str, data: str) -> None:
    """Compute again what the index holds about some shipped weights.

    A difference of one image and of 0.1 % of a mean is allowed: processors round differently.

    Raises:
        RunError: the index holds something else.
    """
    from torchcaps.data import load
    from torchcaps.models import pretrained_path

    entry = next(each for each in list_pretrained() if (each["model"], each["data"]) == (model, data))
    network, card = load_weights(pretrained_path(model, data))
    source, expected = entry["load"], entry["sample"]
    sample = sample_of(network, card, load(source["name"], source["split"], **source["options"]))
    same = sample.keys() == expected.keys() and sample["count"] == expected["count"]
    same = same and abs(sample["right"] - expected["right"]) <= 1
    means = [name for name in ("score", "reconstruction") if name in sample]
    if not same or any(abs(sample[name] - expected[name]) > 1e-3 * abs(expected[name]) for name in means):
        raise RunError(f"{entry['file']}: {sample} on the first test images, the index says {expected}")
