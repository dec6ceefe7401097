"""From a run to what others can trust: a line of results, and weights that come with the package."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from torchcaps.data.atomic import replaced_on_success
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import Model, list_pretrained
from torchcaps.models.pretrained import FOLDER
from torchcaps.training.errors import RunError
from torchcaps.training.evaluation import evaluate
from torchcaps.training.recipe import Recipe
from torchcaps.training.run import digest
from torchcaps.training.splits import load_other, load_split, test_split
from torchcaps.training.weights import Card, load_weights, preprocess_of, write_tensors

# So many test images, from the first on, are looked at again by whoever checks the shipped weights.
SAMPLE = 500


def record(run: str | Path, results: str | Path = "results") -> Path:
    """Copy what a run came to into the folder of results; returns the file written.

    Args:
        run: folder of a run that has ended, called as its recipe, with `-seed1` behind it for seed 1.
        results: where results are kept, one JSON file per run.
    """
    run = Path(run)
    result = read_result(run)
    result["environment"] = {**result["environment"], "command": command(run, result)}
    result.pop("run", None)
    path = Path(results) / f"{run.name}.json"
    with replaced_on_success(path) as temporary:
        temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return path


def command(run: Path, result: dict[str, Any]) -> str:
    """What to type to make the run again: the recipe of this name holds everything else.

    >>> command(Path("runs/mnist-capsnet-seed2"), {"seed": 2})
    'torchcaps train mnist-capsnet --seed 2'
    """
    recipe = run.name.removesuffix(f"-seed{result['seed']}")
    return f"torchcaps train {recipe}" + (f" --seed {result['seed']}" if result["seed"] else "")


def read_result(run: Path) -> dict[str, Any]:
    """The result of a run that has ended."""
    path = run / "result.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if result.get("status") != "ended":
        raise RunError(f"{run} has not ended: go on with torchcaps train --resume --out {run}")
    return result


def ship(run: str | Path, folder: Path = FOLDER) -> dict[str, Any]:
    """Put a run's weights into the package, in half precision, and test what was put there.

    Half precision halves the download; the numbers kept are those of the halved weights.

    Args:
        run: folder of a run that has ended.
        folder: of the weights, with its `index.json`.

    Returns the entry of the index.
    """
    run = Path(run)
    result, recipe = read_result(run), Recipe.from_file(run / "recipe.toml")
    model, card = load_weights(run / result["model"])
    halves = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in model.state_dict().items()
    }
    if not all(bool(tensor.isfinite().all()) for tensor in halves.values()):
        raise RunError(f"{run}: some weights are too large for half precision")
    data = recipe.data.name
    path = folder / f"{recipe.model.name}-{data}.safetensors"
    write_tensors(path, halves, asdict(replace(card, facts={"data": data, "recipe": run.name})))
    model, card = load_weights(path)
    entry = {
        "model": recipe.model.name,
        "data": data,
        "file": path.name,
        "sha256": digest(path),
        "weights": sum(parameter.numel() for parameter in model.parameters()),
        "bytes": path.stat().st_size,
        "recipe": run.name,
        "trained": {"sha256": result["sha256"], "epochs": result["epochs"], "seconds": result["seconds"]},
        "metrics": test_all(model, card, recipe),
        "sample": sample_right(model, card, load_split(recipe.data, test_split(recipe.data))),
        "load": {"name": data, "split": test_split(recipe.data), "options": recipe.data.options},
    }
    keep_entry(entry, folder)
    return entry


def test_all(model: Model, card: Card, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The tests that the run's own result has, of this model."""
    preprocess = preprocess_of(card)
    images = load_split(recipe.data, test_split(recipe.data))
    metrics = {"test": evaluate(model, images, preprocess).summary()}
    if recipe.evaluation.crops > 1:
        metrics["test_crops"] = evaluate(model, images, preprocess, crops=recipe.evaluation.crops).summary()
    for name in recipe.evaluation.also:
        plain = Preprocess(standardise=preprocess.standardise)
        metrics[name] = evaluate(model, load_other(recipe, name), plain).summary()
    return metrics


def sample_right(model: Model, card: Card, images: ImageSet) -> dict[str, int]:
    """How many of the first `SAMPLE` test images are right: what a check of the weights counts again."""
    some = images.select(torch.arange(min(SAMPLE, len(images))))
    evaluation = evaluate(model, some, preprocess_of(card))
    return {"count": evaluation.count, "right": round(evaluation.accuracy * evaluation.count)}


def keep_entry(entry: dict[str, Any], folder: Path) -> None:
    """Put an entry into the index, in place of an older one for the same file."""
    path = folder / "index.json"
    others = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    kept = [other for other in others if other["file"] != entry["file"]]
    entries = sorted([*kept, entry], key=lambda each: each["file"])
    with replaced_on_success(path) as temporary:
        temporary.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def check_shipped(model: str, data: str) -> None:
    """Count again what the index says of some shipped weights; raises if it differs.

    One image more or less is let pass: other processors round otherwise.
    """
    from torchcaps.data import load
    from torchcaps.models import pretrained_path

    entry = next(each for each in list_pretrained() if (each["model"], each["data"]) == (model, data))
    network, card = load_weights(pretrained_path(model, data))
    where = entry["load"]
    images = load(where["name"], where["split"], **where["options"])
    found = sample_right(network, card, images)
    if found["count"] != entry["sample"]["count"] or abs(found["right"] - entry["sample"]["right"]) > 1:
        raise RunError(f"{entry['file']}: {found} images right, the index says {entry['sample']}")
