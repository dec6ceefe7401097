"""Recipes that train in a second, and ways to compare what came of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor

from torchcaps.models.weights import read_tensors
from torchcaps.training.recipe import Recipe

SOURCE = Path(__file__).parents[2] / "src"
CLOCK = ("seconds", "images_per_second")


def tiny_recipe(*settings: str) -> Recipe:
    """A CNN with dropout on the embedded digits: 6 steps an epoch, 3 epochs."""
    table: dict[str, Any] = {
        "model": {"name": "capsnet_cnn", "options": {"channels": [4, 4, 2], "hidden": [16, 8]}},
        "data": {"name": "digits", "preprocess": {"translate": 1}},
        "loss": {"name": "cross_entropy"},
        "training": {"epochs": 3, "batch_size": 256, "ema_decay": 0.9},
    }
    return Recipe.from_table(table).override(settings)


def weights_of(folder: Path, name: str = "last") -> dict[str, Tensor]:
    return read_tensors(folder / f"{name}.safetensors")[0]


def records_of(folder: Path) -> list[dict[str, Any]]:
    """The metrics without what a clock says."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in CLOCK} for line in lines]


def child_environment() -> dict[str, str]:
    """For child processes: this checkout and its tests, one thread."""
    folders = os.pathsep.join([str(SOURCE), str(Path(__file__).parents[1])])
    return {**os.environ, "PYTHONPATH": folders, "OMP_NUM_THREADS": "1"}
