from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchcaps.data.batches import Batch
from torchcaps.models import Model
from torchcaps.training.diagnosis import first_fault
from torchcaps.training.errors import RunError
from torchcaps.training.weights import write_tensors


def raise_not_finite(
    path: Path, model: Model, batch: Batch, forward: Callable[[], Any], *, step: int, main: bool = True
) -> None:
    """End a run whose loss or gradient is not finite.

    The weights (still those before the bad update), the gradients and the batch are saved for inspection.

    Args:
        path: file to save them to.
        model: the network, its gradients in place.
        batch: what it was trained on in this step.
        forward: runs the step's forward pass again.
        step: number of the update, counted from 1.
        main: whether this process writes.
    """
    fault = first_fault(model, batch.images, forward)
    if main:
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        tensors |= {f"gradient.{name}": tensor for name, tensor in gradients.items()}
        tensors |= {f"batch.{name}": tensor for name, tensor in batch._asdict().items()}
        write_tensors(path, tensors, {"step": step, "fault": fault})
    raise RunError(
        f"step {step}: the loss or its gradient is not finite; the first place where is {fault}. "
        f"Weights, gradients and batch of that step are in {path}. "
        "A lower optimiser.learning_rate or a schedule.warmup_steps is the usual remedy."
    )
