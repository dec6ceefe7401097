"""Cells: what each one is, and the file that holds its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torchcaps
from torchcaps.experiments.compare.forms import SPEED, Form
from torchcaps.experiments.compare.networks import Network, model_options
from torchcaps.experiments.framework.storage import as_json, read_json, write_json

CELLS, TRAINING = "cells", "training"


@dataclass(frozen=True)
class Cell:
    """One network, one part of the data, one seed.

    Attributes:
        network: what is trained.
        part: `"digits"`, `"overlap"`, `"views"` or `"speed"`.
        seed: of the first weights and of the order of the batches.
        settings: of the part, and the version of torchcaps: they are the same for all networks.
        model: name and options of the network, see `model_options`.
    """

    network: Network
    part: str
    seed: int
    settings: dict[str, Any]
    model: dict[str, Any]

    def identity(self) -> dict[str, Any]:
        """All that decides the result, as JSON can hold it."""
        network = {"head": self.network.head, "pose": self.network.pose, "trunk": self.network.trunk}
        return as_json(
            {
                "network": network,
                "part": self.part,
                "seed": self.seed,
                "model": self.model,
                "settings": self.settings,
            }
        )

    @property
    def name(self) -> str:
        """Name of the cell's files: readable, and with a digest of its identity.

        >>> Cell(Network("em", "matrix", "preact"), "digits", 0, {}, {}).name
        'em-matrix-preact-digits-0-6b85ab439e'
        """
        words = [self.network.head, self.network.pose, self.network.trunk, self.part, str(self.seed)]
        return "-".join([*(word for word in words if word), digest_of(self.identity())[:10]])

    def title(self) -> str:
        """What is computed, for progress and messages."""
        return f"{self.network.title()}: {self.part}" + f", seed {self.seed}" * (self.part != SPEED)


def digest_of(table: dict[str, Any]) -> str:
    """The sha256 of a table; the order of its keys does not matter.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def frame_of(form: Form) -> dict[str, dict[str, Any]]:
    """The settings of each part that are the same for all networks; only such cells can be compared."""
    frame = {
        part: {"torchcaps": torchcaps.__version__, "types": form.types, **settings.to_table()}
        for part, settings in form.parts.items()
    }
    first = next(iter(form.parts.values()))
    frame[SPEED] = {
        "torchcaps": torchcaps.__version__,
        "types": form.types,
        "size": first.size,
        "batch_size": first.batch_size,
        "seconds": form.speed_seconds,
    }
    return as_json(frame)


def plan_cells(
    form: Form, networks: Sequence[Network], seeds: int, parts: Sequence[str] | None = None
) -> list[Cell]:
    """All cells, in the order of their computation: one seed of all networks, then the next seed.

    Speed is measured once for each network, before the first training.

    Args:
        form: data and budget.
        networks: what is compared.
        seeds: number of seeds.
        parts: parts of the data, `"speed"` included; by default all.
    """
    frame = frame_of(form)

    def cell(network: Network, part: str, seed: int) -> Cell:
        return Cell(network, part, seed, frame[part], model_options(network, form.types))

    cells = [cell(network, SPEED, 0) for network in networks] + [
        cell(network, part, seed) for seed in range(seeds) for network in networks for part in form.parts
    ]
    return [each for each in cells if parts is None or each.part in parts]


def result_path(out: Path, cell: Cell) -> Path:
    """The file of a cell's result."""
    return out / CELLS / f"{cell.name}.json"


def read_result(out: Path, cell: Cell) -> dict[str, Any] | None:
    """The result of a cell that is finished or has failed; `None` for one that was not computed.

    A damaged file counts as none: its cell is computed again.
    """
    try:
        result = read_json(result_path(out, cell), "cell", "status")
    except (OSError, ValueError):
        return None
    return result if result["cell"] == cell.identity() else None


def is_finished(out: Path, cell: Cell) -> bool:
    """Whether a cell has a result; one that failed is tried again."""
    result = read_result(out, cell)
    return result is not None and result["status"] == "ended"


def write_result(out: Path, cell: Cell, result: dict[str, Any]) -> None:
    """Write the result of a cell; a reader sees the old file or the complete new one."""
    write_json(result_path(out, cell), {"cell": cell.identity(), **result})


def read_results(out: Path, frame: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The results of all cells in a folder that were computed with the settings of `frame`.

    Cells of an earlier run with other settings stay in the folder, but they cannot be compared with these.
    """
    results = []
    for path in sorted((out / CELLS).glob("*.json")):
        try:
            result = read_json(path, "cell", "status")
        except ValueError:
            continue
        cell = result["cell"]
        if cell["settings"] == frame.get(cell["part"]):
            results.append(result)
    return results
