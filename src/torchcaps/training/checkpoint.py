"""Where a run stands: everything needed to go on, bitwise, in one file that is replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchcaps.models.weights import read_tensors, write_tensors
from torchcaps.training.optim import EMA


@dataclass
class Position:
    """The scalars of a run's state.

    - `epoch`, `batch`: what comes next. Batches, dropout and the learning rate are functions of these, of
      `step` and of the seed, so no generator or schedule has a state of its own.
    - `records`: lines of metrics.jsonl written; lines after them are of a future that was lost.
    - `best`, `waited`: best value of the watched metric, and epochs since.
    - `seconds`: spent training, over all sessions.
    - `ended`: why training is over, if it is.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    records: int = 0
    best: float | None = None
    waited: int = 0
    seconds: float = 0.0
    images: int = 0
    ended: str = ""


def new_tally(device: torch.device | str = "cpu") -> Tensor:
    """Sums over this epoch so far: loss, images right, images. Kept on the device, read when shown."""
    return torch.zeros(3, dtype=torch.float64, device=device)


def save_state(
    path: str | Path,
    position: Position,
    model: nn.Module,
    optimizer: Optimizer,
    average: EMA,
    tallies: dict[str, Tensor],
) -> None:
    """Write the state atomically; weights and optimizer are of the same step because they are one file."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.state().items()}
    tensors |= {f"tally.{name}": tensor for name, tensor in tallies.items()}
    tensors |= dict(_optimizer_tensors(optimizer))
    write_tensors(path, tensors, asdict(position))


def load_state(
    path: str | Path,
    model: nn.Module,
    optimizer: Optimizer,
    average: EMA,
    tallies: dict[str, Tensor],
) -> Position:
    """Put a saved state into the model and the others, and return the position."""
    tensors, table = read_tensors(path)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "tally": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    model.load_state_dict(parts["model"])
    average.load(parts["average"])
    for name, tensor in tallies.items():
        tensor.copy_(parts["tally"][name])
    remembered: dict[int, dict[str, Any]] = {}
    for name, tensor in parts["optimizer"].items():
        number, _, key = name.partition(".")
        remembered.setdefault(int(number), {})[key] = tensor
    # The groups (learning rate and so on) come from the recipe, which a resumed run may change.
    optimizer.load_state_dict({"state": remembered, "param_groups": optimizer.state_dict()["param_groups"]})
    known = {field.name for field in fields(Position)}
    return Position(**{key: value for key, value in table.items() if key in known})


def _optimizer_tensors(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    for number, remembered in optimizer.state_dict()["state"].items():
        for key, value in remembered.items():
            # SGD without momentum keeps None.
            if value is not None:
                yield f"optimizer.{number}.{key}", torch.as_tensor(value)
