"""The state of a run: all that is needed to continue it bitwise, in one file that is replaced atomically."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchcaps._checks import check_choice, check_count, check_number
from torchcaps.errors import RunError
from torchcaps.models.weights import find_misfit, find_unusable, read_tensors, write_tensors
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
    """Load a saved state into the model, the optimizer, the average and the totals; return the position.

    Nothing is changed unless all of it fits.

    Raises:
        RunError: the file is damaged, or of another model or optimizer; the message names the fault.
    """
    tensors, table = read_tensors(path)
    try:
        position = _read_position(table)
    except ValueError as fault:
        raise RunError(f"{path} is damaged: {fault}") from None
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "totals": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        if part not in parts:
            raise RunError(f"{path} is damaged: {name} is no part of a state")
        parts[part][rest] = tensor
    own = {"model": model.state_dict(), "average": average.state(), "totals": totals}
    if not parts["average"] or not own["average"]:
        del own["average"]  # a resumed run may begin to average its weights, or no longer do so
    for part, wanted in own.items():
        misfit = find_misfit(wanted, {name: tensor.shape for name, tensor in parts[part].items()})
        if misfit:
            kind = "the state of another model" if part == "model" else f"damaged in its {part}"
            raise RunError(f"{path} is {kind}: {misfit}")
        unusable = find_unusable(wanted, parts[part])
        if unusable:
            raise RunError(f"{path} is damaged in its {part}: {unusable}")
    moments = _read_moments(parts["optimizer"], optimizer, path, position.step)

    model.load_state_dict(parts["model"])
    average.load(parts["average"])
    for name, tensor in totals.items():
        tensor.copy_(parts["totals"][name])
    # The groups (learning rate and so on) come from the recipe, which a resumed run may change.
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return position


def _read_position(table: dict[str, Any]) -> Position:
    for field in fields(Position):
        if field.name not in table:
            raise ValueError(f"{field.name} is missing")
    for name in ("epoch", "batch", "step", "records", "waited", "images"):
        check_count(name, table[name], minimum=0)
    check_number("seconds", table["seconds"])
    check_choice("ended", table["ended"], ("", "epochs", "patience", "target"))
    best = table["best"]
    if best is not None and (isinstance(best, bool) or not isinstance(best, (int, float))):
        raise ValueError(f"best must be a number or null, got {best!r}")
    return Position(**{field.name: table[field.name] for field in fields(Position)})


# What the optimizers of a recipe keep for each parameter. SGD begins with momentum whenever it has none.
ADAM, SGD = {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"}


def _read_moments(
    tensors: dict[str, Tensor], optimizer: Optimizer, path: str | Path, step: int
) -> dict[int, dict[str, Any]]:
    """What the optimizer keeps, by number of the parameter, checked."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    moments: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        if not number.isdecimal() or int(number) >= len(parameters):
            raise RunError(f"{path} is damaged: optimizer.{name} is of no parameter")
        expected = torch.Size() if key == "step" else parameters[int(number)].shape
        if key in ADAM | SGD and tensor.shape != expected:
            raise RunError(
                f"{path} is damaged: optimizer.{name} is {list(tensor.shape)}, and the model needs "
                f"{list(expected)}"
            )
        if tensor.isnan().any():
            raise RunError(f"{path} is damaged: optimizer.{name} holds NaN")
        moments.setdefault(int(number), {})[key] = _laid_out(tensor, parameters[int(number)])
    kind = type(optimizer)
    if issubclass(kind, torch.optim.SGD):
        fits = all(each.keys() <= SGD for each in moments.values())
    elif issubclass(kind, (torch.optim.Adam, torch.optim.AdamW)):
        fits = all(each.keys() == ADAM for each in moments.values()) and bool(moments or not step)
    else:
        fits = True
    if not fits:
        raise RunError(
            f"{path} is the state of another optimizer than {kind.__name__}: resume with the one in "
            "recipe.toml, or start a new run in another folder (--out)"
        )
    return moments


def _laid_out(tensor: Tensor, parameter: Tensor) -> Tensor:
    """The tensor with the memory layout of its parameter, in which the optimizer computes.

    Files hold tensors in one layout. An operation on two layouts rounds differently from one on a single
    layout, and a resumed run would no longer be bitwise the same.
    """
    if tensor.shape != parameter.shape:
        return tensor
    return torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)


def _optimizer_tensors(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    for number, moments in optimizer.state_dict()["state"].items():
        for key, value in moments.items():
            # SGD without momentum has None here.
            if value is not None:
                yield f"optimizer.{number}.{key}", torch.as_tensor(value)
