"""The two ways to start a training: from a recipe, and from a model and data of your own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from torchcaps.data.preprocess import Preprocess
from torchcaps.models.weights import OBJECT
from torchcaps.training.callbacks import Callback, CallbackList, Stopper, parse_duration
from torchcaps.training.data import Images, as_images, first_images, make_splits
from torchcaps.training.engine import Engine
from torchcaps.training.objective import LossFunction
from torchcaps.training.recipe import Recipe
from torchcaps.training.task import Task, object_task, recipe_task

LOGGER = logging.getLogger(__name__)
# What a recipe may say about data that are given as objects.
DATA_KEYS = ("preprocess", "val_fraction", "limit", "limit_per_class")


def train(
    recipe: Recipe,
    out: str | Path | None = None,
    *,
    name: str = "",
    resume: bool = False,
    budget: float | str | None = None,
    save_every: float = 120.0,
    keep_epochs: bool = False,
    num_workers: int = 0,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Train the model of a recipe on its data.

    On several devices or machines, start it with `torchrun`: every batch is then split among the processes,
    and the gradients are those of one process with the whole batch. The first process chooses the folder.

    Args:
        recipe: what to train, on what, and how.
        out: the run's folder (several machines share it); by default a free one in `runs/`.
        name: of the run, for a folder in `runs/`; by default data and model.
        resume: continue the run in that folder, if there is one. On a CPU the weights end bitwise as if it
            had never stopped.
        budget: time after which to stop and save, in seconds or as `"1h30m"`.
        save_every: seconds after which the state is saved, besides at the end of each epoch.
        keep_epochs: keep the model of every epoch, as `epoch-3.safetensors`.
        num_workers: processes that load images which are not in memory.
        callbacks: called during training, in the main process.

    Returns:
        What is also in the run's `result.json`; its `status` is `"ended"`, `"budget"` or `"interrupted"`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from torchcaps.training import default_recipe
        >>> recipe = default_recipe("pooled_cnn", "digits").override(
        ...     ["training.epochs=1", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]"])
        >>> with TemporaryDirectory() as folder:
        ...     train(recipe, folder)["status"]
        'ended'
    """
    data = Path(recipe.data.name).name.replace(":", "-")
    return run_task(
        lambda: recipe_task(recipe, num_workers),
        out,
        budget=budget,
        callbacks=callbacks,
        name=name or f"{data}-{recipe.model.name}",
        resume=resume,
        save_every=save_every,
        keep_epochs=keep_epochs,
    )


def run_task(
    make_task: Callable[[], Task],
    out: str | Path | None,
    *,
    budget: float | str | None,
    callbacks: Sequence[Callback],
    **options: Any,
) -> dict[str, Any]:
    """Build a task and train it; the budget covers both. `options` go to `Engine`."""
    together = CallbackList(callbacks)
    try:
        with Stopper(parse_duration(budget) if isinstance(budget, str) else budget) as stopper:
            return Engine(make_task(), out, callbacks=callbacks, **options).train(stopper)
    finally:
        together.close()


def fit(
    model: nn.Module,
    train: Any,
    test: Any = None,
    *,
    out: str | Path | None = None,
    name: str = "",
    classes: Sequence[str] | None = None,
    loss: str | LossFunction | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    optimizer: str | None = None,
    lr: float | None = None,
    seed: int | None = None,
    val_fraction: float | None = None,
    preprocess: Preprocess | Mapping[str, Any] | None = None,
    ema_decay: float | None = None,
    precision: str | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    num_workers: int = 0,
    resume: bool = False,
    budget: float | str | None = None,
    save_every: float = 120.0,
    keep_epochs: bool = False,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Train any model on any data set, in place.

    The engine is that of `train`: the run's folder, resuming, metrics, several processes by `torchrun`, the
    report of a loss that is not finite. When the run has ended, `model` holds the weights that it reports:
    the best on the validation images if there are some, otherwise the last. A model that `create_model` built
    is loaded later by the run's folder: `Predictor.load(out)`, `torchcaps.export(out, ...)`, `torchcaps
    evaluate`. For any other, build it again and call `torchcaps.training.load_into(model, out)`.

    Args:
        model: any `nn.Module` that maps images `[B, C, H, W]` to `torchcaps.Output` or logits `[B, classes]`.
        train: an `ImageSet`, or any map-style data set of `(image, label)`. An image is a tensor `[C, H, W]`,
            a PIL image or an array `[H, W, C]`, uint8 or float; a label is a whole number, or K of them.
            Random augmentations of the data set itself are seeded by (seed, epoch, index), so that a resumed
            run repeats them.
        test: what to test on, in the same form. Without it and without `val_fraction`, nothing is tested.
        out: the run's folder; by default a free one in `runs/`.
        name: of the run, for a folder in `runs/`; by default the model's class.
        classes: names of the classes; by default `train.classes` if there is such an attribute, or numbers.
        loss: `"cross_entropy"` (the default), `"margin"`, `"spread"`, or a function of what the model
            returned and of the labels, such as `torch.nn.functional.cross_entropy`.
        epochs: passes over the training images, 10 by default.
        batch_size: images per step over all processes; by default 128, or fewer for fewer than
            1,024 images: `training.batch_size` in the guide to recipes has the rule.
        optimizer: `"adam"` (the default), `"adamw"` or `"sgd"`.
        lr: learning rate, 0.001 by default.
        seed: of batches and dropout, 0 by default; the initial weights are those of the model.
        val_fraction: share of the training images held out for validation, none by default.
        preprocess: a `Preprocess` or its options, such as `{"translate": 2}`. Pixels in uint8 become 0..1.
        ema_decay: decay of an average of the weights, which is then what is tested and saved.
        precision: `"fp32"` (the default) or `"bf16"`.
        recipe: all other settings, as a `Recipe` or as tables, such as `{"schedule": {"name": "cosine"}}`.
            The arguments above have priority; the model and the name of the data in a recipe are ignored.
        num_workers: processes that load images which are not in memory.
        resume: continue the run in that folder, if there is one, with the same model, data and seed.
        budget: time after which to stop and save, in seconds or as `"1h30m"`; `model` then holds the weights
            of the latest step.
        save_every: seconds after which the state is saved, besides at the end of each epoch.
        keep_epochs: keep the model of every epoch, as `epoch-3.safetensors`.
        callbacks: called during training, in the main process.

    Returns:
        What is also in the run's `result.json`; its `status` is `"ended"`, `"budget"` or `"interrupted"`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from torchcaps.data import load
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> with TemporaryDirectory() as folder:
        ...     result = fit(net, load("digits"), load("digits", "test"), out=folder, epochs=2, lr=0.01)
        >>> result["metrics"]["test"]["accuracy"] > 0.5
        True
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    settings = {
        "loss": {"name": _loss_name(loss)},
        "training": {
            "epochs": epochs,
            "batch_size": batch_size,
            "ema_decay": ema_decay,
            "precision": precision,
        },
        "optimizer": {"name": optimizer, "lr": lr},
        "data": {"val_fraction": val_fraction, "preprocess": _options(preprocess)},
        "seed": seed,
    }

    def make_task() -> Task:
        images = as_images(train, classes)
        others = None if test is None else as_images(test, classes or images.classes)
        complete = object_recipe(model, train, images, settings, recipe)
        splits = make_splits(images, others, complete.data, complete.seed)
        return object_task(complete, model, splits, None if isinstance(loss, str) else loss, num_workers)

    return run_task(
        make_task,
        out,
        budget=budget,
        callbacks=callbacks,
        name=name or type(model).__name__.lower(),
        resume=resume,
        save_every=save_every,
        keep_epochs=keep_epochs,
    )


def object_recipe(
    model: nn.Module,
    dataset: Any,
    images: Images,
    settings: Mapping[str, Any],
    recipe: Recipe | Mapping[str, Any] | None,
) -> Recipe:
    """The recipe of a training whose model and data are objects: their classes and sizes stand for names."""
    table: dict[str, Any] = {"loss": {}}
    if isinstance(recipe, Recipe):
        table = recipe.to_table()
        table["data"] = {key: table["data"][key] for key in DATA_KEYS}
    elif recipe is not None:
        if not isinstance(recipe, Mapping):
            raise ValueError(
                f"recipe must be a Recipe or tables, got {recipe!r}; load_recipe reads one by name"
            )
        for key in set(recipe.get("data", {})) - {*DATA_KEYS}:
            raise ValueError(f"recipe: data.{key} has no meaning for data that are given as an object")
        if "model" in recipe:
            raise ValueError("recipe: the model is given as an object, so there must be no table 'model'")
        table |= {key: dict(value) if isinstance(value, Mapping) else value for key, value in recipe.items()}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            chosen = {inner: each for inner, each in value.items() if each is not None}
            table[key] = {**table.get(key, {}), **chosen}
        elif value is not None:
            table[key] = value
    if "name" not in table["loss"]:
        table["loss"]["name"] = "cross_entropy"
        LOGGER.info("loss: cross_entropy, as fit was given none; it is for all models that have logits")
    shape = list(first_images(images, 1)[0].shape[1:])
    table["model"] = {"name": OBJECT + type(model).__qualname__}
    table["data"]["name"] = OBJECT + type(dataset).__qualname__
    # A run can be resumed with the same data only; this much of them can be compared.
    table["data"]["options"] = {"images": len(images), "shape": shape}
    return Recipe.from_table(table)


def _loss_name(loss: str | LossFunction | None) -> str | None:
    if loss is None or isinstance(loss, str):
        return loss
    if not callable(loss):
        raise ValueError(f"loss must be a name or a function of (output, labels), got {loss!r}")
    return OBJECT + getattr(loss, "__name__", type(loss).__name__)


def _options(preprocess: Preprocess | Mapping[str, Any] | None) -> dict[str, Any] | None:
    if isinstance(preprocess, Preprocess):
        default = asdict(Preprocess())
        return {name: value for name, value in asdict(preprocess).items() if value != default[name]}
    return None if preprocess is None else dict(preprocess)
