"""The state of a run: all that is needed to continue it bitwise, in one file that is replaced atomically."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchcaps.errors import RunError
from torchcaps.models.weights import read_tensors, write_tensors
from torchcaps.training.optim import EMA


@dataclass
class Position:
    """Where a run is: the scalars of its state.

    Attributes:
        epoch: the epoch to continue with, from 0.
        batch: the batch to continue with, from 0. Batches, dropout and the learning rate are functions of
            epoch, batch, step and seed, so that no generator or schedule has a state of its own.
        step: updates done.
        records: lines of metrics.jsonl written; later lines in the file belong to steps that were lost.
        best: best value so far of the metric that `stop` names.
        waited: epochs since.
        seconds: time of training, over all sessions.
        images: images trained on, over all sessions.
        ended: why training is over: "epochs", "patience" or "target"; empty while it is not.
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


def new_totals(device: torch.device | str = "cpu") -> Tensor:
    """Sums over a part of an epoch: loss, images right, images. They stay on the device until shown."""
    return torch.zeros(3, dtype=torch.float64, device=device)


def save_state(
    path: str | Path,
    position: Position,
    model: nn.Module,
    optimizer: Optimizer,
    average: EMA,
    totals: dict[str, Tensor],
) -> None:
    """Write the state atomically; weights and optimizer are of the same step because they are one file."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.state().items()}
    tensors |= {f"totals.{name}": tensor for name, tensor in totals.items()}
    tensors |= dict(_optimizer_tensors(optimizer))
    write_tensors(path, tensors, asdict(position))


def load_state(
    path: str | Path,
    model: nn.Module,
    optimizer: Optimizer,
    average: EMA,
    totals: dict[str, Tensor],
) -> Position:
    """Load a saved state into the model, the optimizer, the average and the totals; return the position."""
    tensors, table = read_tensors(path)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "totals": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    try:
        model.load_state_dict(parts["model"])
    except RuntimeError as fault:
        raise RunError(f"{path} is the state of another model: {fault}") from None
    average.load(parts["average"])
    for name, tensor in totals.items():
        tensor.copy_(parts["totals"][name])
    moments: dict[int, dict[str, Any]] = {}
    for name, tensor in parts["optimizer"].items():
        number, _, key = name.partition(".")
        moments.setdefault(int(number), {})[key] = tensor
    # The groups (learning rate and so on) come from the recipe, which a resumed run may change.
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    known = {field.name for field in fields(Position)}
    return Position(**{key: value for key, value in table.items() if key in known})


def _optimizer_tensors(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    for number, moments in optimizer.state_dict()["state"].items():
        for key, value in moments.items():
            # SGD without momentum has None here.
            if value is not None:
                yield f"optimizer.{number}.{key}", torch.as_tensor(value)
