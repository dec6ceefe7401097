"""Train the network of one cell with the budget that all cells of its part have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.compare.cells import Cell
from torchcaps.experiments.compare.data import PartData
from torchcaps.experiments.compare.forms import PartSettings
from torchcaps.experiments.compare.measurements import measure
from torchcaps.models import Model, create_model
from torchcaps.training.callbacks import Callback
from torchcaps.training.data import Splits
from torchcaps.training.task import Task, object_task
from torchcaps.training.trainer import object_recipe, run_task

# Seconds between two states on the disk, besides those after each epoch.
SAVE_EVERY = 60.0


class CellStopped(Exception):  # noqa: N818 - not an error
    """The training of a cell was stopped and saved; `status` is `"budget"` or `"interrupted"`."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def compute_cell(
    cell: Cell, settings: PartSettings, images: PartData, folder: Path, *, seconds: float, callback: Callback
) -> dict[str, Any]:
    """Train and test the network of a cell.

    Args:
        cell: what to compute.
        settings: of its part.
        images: of its part.
        folder: of the training; an unfinished training in it is continued.
        seconds: time limit of the training in this call.
        callback: is called during the training.

    Returns:
        Measured values in percent, the number of test images of each (several versions of one image count
        once), the accuracy on the validation images, the steps, the number of parameters, and the seconds of
        training.

    Raises:
        CellStopped: the time is used up, or the user has interrupted the training.
    """
    model = build(cell, images.train)
    recipe = {
        "loss": {"name": "cross_entropy"},
        "optimizer": {"name": "adam", "lr": settings.lr},
        "schedule": {"name": "cosine", "warmup_steps": settings.warmup_steps},
        "training": {"epochs": settings.epochs, "batch_size": settings.batch_size},
        "data": {"val_fraction": settings.validation},
        "seed": cell.seed,
    }

    def make_task() -> Task:
        complete = object_recipe(model, images.train, images.train, {}, recipe)
        splits = Splits(images.train, images.validation, "validation", None)
        return object_task(complete, model, splits)

    result = run_task(
        make_task,
        folder,
        budget=seconds,
        callbacks=[callback],
        name="cell",
        resume=True,
        save_every=SAVE_EVERY,
    )
    if result["status"] != "ended":
        raise CellStopped(result["status"])
    # The model now has the weights of the best epoch on the validation images.
    values = measure(model, images.tests, settings)
    counts = {name: len(test) // settings.test_per_image for name, test in images.tests.items()}
    if settings.attacked:
        counts |= dict.fromkeys(("fgsm", "pgd"), settings.attacked)
    return {
        "values": values,
        "counts": counts,
        "validation": 100 * result["metrics"]["validation"]["accuracy"],
        "steps": result["step"],
        "parameters": result["num_params"],
        "train_seconds": result["seconds"],
    }


def build(cell: Cell, train: ImageSet) -> Model:
    """The network of a cell for these images, with the first weights of its seed."""
    torch.manual_seed(cell.seed)
    return create_model(
        **cell.model,
        num_classes=train.num_classes,
        in_channels=train.in_channels,
        image_size=train.image_size,
    )
