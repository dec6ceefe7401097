"""How long a comparison will take, from a few steps of each network."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from torchcaps.experiments.compare.cells import Cell
from torchcaps.experiments.compare.data import PartData
from torchcaps.experiments.compare.forms import SPEED, Form, PartSettings
from torchcaps.experiments.compare.networks import Network
from torchcaps.experiments.compare.speed import training_step
from torchcaps.experiments.compare.training import build

# Starting the process that measures the speed, in seconds.
START = 5.0


class Estimate(NamedTuple):
    """The time that is needed.

    Attributes:
        total: number of cells.
        left: number of cells that are not finished.
        seconds: estimated for all of them.
        longest: the cell that takes longest; `None` if none is left.
        longest_seconds: estimated for it.
    """

    total: int
    left: int
    seconds: float
    longest: Cell | None
    longest_seconds: float


def estimate_cells(form: Form, left: Sequence[Cell], images: dict[str, PartData], total: int) -> Estimate:
    """Time one training step and one batch of inference of each network on each part.

    Args:
        form: data and budget.
        left: cells that are not finished.
        images: by part.
        total: number of cells, with the finished ones.
    """
    known: dict[tuple[Network, str], float] = {}
    times: dict[str, float] = {}
    for cell in left:
        key = cell.network, cell.part
        if key not in known:
            known[key] = (
                START + 2 * form.speed_seconds
                if cell.part == SPEED
                else cell_seconds(cell, form.parts[cell.part], images[cell.part])
            )
        times[cell.name] = known[key]
    longest = max(left, key=lambda cell: times[cell.name], default=None)
    longest_seconds = times[longest.name] if longest else 0.0
    return Estimate(total, len(left), sum(times.values()), longest, longest_seconds)


def cell_seconds(cell: Cell, settings: PartSettings, images: PartData) -> float:
    """The estimated time of a cell; 0 for one that fails at once."""
    try:
        model = build(cell, images.train)
        batch = images.train.images[: settings.batch_size].float() / 255
        optimizer = torch.optim.Adam(model.parameters())
        train = best_of_two(lambda: training_step(model, optimizer, batch)) / len(batch)
        model.eval()
        with torch.no_grad():
            infer = best_of_two(lambda: model(batch)) / len(batch)
    except (ValueError, RuntimeError):
        return 0.0
    pixels = batch.shape[2] * batch.shape[3]
    tested = sum(
        len(test) * test.image_size[0] * test.image_size[1] / pixels for test in images.tests.values()
    )
    tested += len(images.validation) * settings.epochs
    attacked = settings.attacked * (2 + settings.pgd_steps * settings.restarts)
    return train * (len(images.train) * settings.epochs + attacked) + infer * tested


def best_of_two(call: Callable[[], object]) -> float:
    """The shorter time of two calls; the first one often allocates memory."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
