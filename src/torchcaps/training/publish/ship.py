"""Weights that come with the package: how a run's are put there, and how what is said of them is checked."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from torchcaps._files import digest, replaced_on_success
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.errors import RunError
from torchcaps.models import Model, list_pretrained
from torchcaps.models.pretrained import FOLDER, MAX_BYTES
from torchcaps.models.weights import ModelCard, load_weights, write_tensors
from torchcaps.training.evaluation import evaluate
from torchcaps.training.prediction import predict
from torchcaps.training.publish.record import read_result, recipe_name
from torchcaps.training.recipe import Recipe
from torchcaps.training.splits import eval_split, load_other, load_split

# So many test images, from the first on, are looked at again by whoever checks the shipped weights.
SAMPLE = 500
# What an entry keeps of the result of its run.
TRAINED = ("sha256", "epochs", "seconds")


def ship(run: str | Path, folder: Path = FOLDER) -> dict[str, Any]:
    """Put a run's weights into the package, in half precision, and test what is put there.

    Half precision halves the download; the numbers kept are those of the halved weights. Nothing in the
    package changes until all tests were done.

    Args:
        run: folder of a run that has ended, made from a recipe that comes with torchcaps.
        folder: of the weights, with its `index.json`.

    Returns the entry of the index.
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
    data = recipe.data.name
    file = f"{recipe.model.name}-{data}.safetensors"
    with TemporaryDirectory() as aside:
        written = Path(aside) / file
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
            "load": {"name": data, "split": eval_split(recipe.data), "options": recipe.data.options},
        }
        with replaced_on_success(folder / file) as temporary:
            temporary.write_bytes(written.read_bytes())
    keep_entry(entry, folder)
    return entry


def check_room(file: str, size: int, folder: Path) -> None:
    """Refuse weights that would make the package larger than is fair to whoever installs it."""
    others = sum(path.stat().st_size for path in folder.glob("*.safetensors") if path.name != file)
    if others + size > MAX_BYTES:
        raise RunError(
            f"{file} has {size / 1e6:.1f} MB: all weights would be {(others + size) / 1e6:.1f} MB, and "
            f"{MAX_BYTES / 1e6:.0f} are allowed"
        )


def evaluate_all(model: Model, card: ModelCard, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The tests that the run's own result has, of this model."""
    preprocess = Preprocess.from_options(card.preprocess)
    images = load_split(recipe.data, eval_split(recipe.data))
    metrics = {"test": evaluate(model, images, preprocess).summary()}
    if recipe.evaluation.crops > 1:
        metrics["test_crops"] = evaluate(model, images, preprocess, crops=recipe.evaluation.crops).summary()
    for name in recipe.evaluation.extra_datasets:
        plain = Preprocess(standardize=preprocess.standardize)
        metrics[name] = evaluate(model, load_other(recipe, name), plain).summary()
    return metrics


def sample_of(model: Model, card: ModelCard, images: ImageSet) -> dict[str, Any]:
    """What a check of the weights finds again on the first `SAMPLE` test images.

    How many are right, the mean of the highest score, and the error of the drawings if there are any: the
    first alone would not notice small changes, nor any in a decoder.
    """
    some = images.select(torch.arange(min(SAMPLE, len(images))))
    evaluation = evaluate(model, some, Preprocess.from_options(card.preprocess))
    scores = predict(model, Preprocess.from_options(card.preprocess).test(some.images)).scores
    found = {
        "count": evaluation.count,
        "right": round(evaluation.accuracy * evaluation.count),
        "score": round(float(scores.amax(1).mean()), 6),
    }
    if evaluation.reconstruction is not None:
        found["reconstruction"] = round(evaluation.reconstruction, 4)
    return found


def keep_entry(entry: dict[str, Any], folder: Path) -> None:
    """Put an entry into the index, in place of an older one for the same file."""
    path = folder / "index.json"
    others = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    kept = [other for other in others if other["file"] != entry["file"]]
    entries = sorted([*kept, entry], key=lambda each: each["file"])
    with replaced_on_success(path) as temporary:
        temporary.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def check_shipped(model: str, data: str) -> None:
    """Find again what the index says of some shipped weights; raises if it differs.

    One image more or less and 0.1 % of a mean are let pass: other processors round otherwise.
    """
    from torchcaps.data import load
    from torchcaps.models import pretrained_path

    entry = next(each for each in list_pretrained() if (each["model"], each["data"]) == (model, data))
    network, card = load_weights(pretrained_path(model, data))
    where, said = entry["load"], entry["sample"]
    found = sample_of(network, card, load(where["name"], where["split"], **where["options"]))
    alike = found.keys() == said.keys() and found["count"] == said["count"]
    alike = alike and abs(found["right"] - said["right"]) <= 1
    means = [name for name in ("score", "reconstruction") if name in found]
    if not alike or any(abs(found[name] - said[name]) > 1e-3 * abs(said[name]) for name in means):
        raise RunError(f"{entry['file']}: {found} on the first test images, the index says {said}")
