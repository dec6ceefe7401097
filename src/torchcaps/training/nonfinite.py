"""The report of a loss or a gradient that is not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchcaps.data.batches import Batch
from torchcaps.errors import RunError
from torchcaps.models.weights import write_tensors


def gradients_finite(loss: Tensor, parameters: list[nn.Parameter]) -> Tensor:
    """Whether the loss and all gradients are finite, as a 0-d tensor on their device.

    >>> weight = nn.Parameter(torch.ones(2))
    >>> weight.grad = torch.tensor([0.0, float("inf")])
    >>> bool(gradients_finite(torch.tensor(1.0), [weight]))
    False
    """
    # Norms in one pass; weights whose norm overflows in float32 would be infinite a step later anyway.
    norms = torch._foreach_norm([p.grad for p in parameters if p.grad is not None])
    return torch.isfinite(torch.stack([*norms, loss.detach().to(norms[0])] if norms else [loss])).all()


class LateCheck:
    """Finds steps that are not finite without waiting for a GPU at every step.

    Reading a number waits for the device. So the first fault sets a flag there, and from then on the
    optimizer, which reads the flag on the device, changes no weight. Every few steps the flag is read.

    Args:
        optimizer: a fused one of PyTorch, which skips a step where its `found_inf` is 1.
        device: of the weights.

    Example:
        >>> weight = nn.Parameter(torch.ones(1))
        >>> optimizer = torch.optim.SGD([weight], lr=1.0, fused=True)
        >>> check = LateCheck(optimizer, weight.device)
        >>> for slope in (0.25, float("nan"), 0.25):
        ...     weight.grad = torch.tensor([slope])
        ...     check.add(gradients_finite(weight.grad.sum(), [weight]))
        ...     optimizer.step()
        >>> check.steps_since_fault(), weight.item()
        (2, 0.75)
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        self.late = torch.zeros((), device=device)
        optimizer.found_inf = self.fault = torch.zeros((), device=device)  # type: ignore[attr-defined]
        optimizer.grad_scale = None  # type: ignore[attr-defined]

    def add(self, finite: Tensor) -> None:
        """Add a step, before its update."""
        self.fault.copy_(torch.maximum(self.fault, (~finite).to(self.fault)))
        self.late += self.fault

    def steps_since_fault(self) -> int:
        """Number of steps since the first that was not finite, itself included; this waits for the device."""
        return int(self.late)


def first_fault(model: nn.Module, images: Tensor, forward: Callable[[], Any]) -> str:
    """Name the first value that is not finite: the batch, a parameter, a layer's output, or a gradient.

    Args:
        model: the network, with the gradients of the faulty step still in place.
        images: the batch's images.
        forward: runs the faulty forward pass again.

    Example:
        >>> net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        >>> _ = nn.init.constant_(net[1].bias, float("nan"))
        >>> first_fault(net, torch.zeros(1, 1), lambda: net(torch.zeros(1, 1)))
        "parameter '1.bias'"
    """
    if not torch.isfinite(images).all():
        return "the batch's images"
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            return f"parameter {name!r}"
    faulty: list[str] = []
    handles = [
        module.register_forward_hook(
            lambda _m, _i, output, name=name: None if _finite(output) else faulty.append(name)
        )
        for name, module in model.named_modules()
        if name
    ]
    try:
        with torch.no_grad():
            forward()
    finally:
        for handle in handles:
            handle.remove()
    if faulty:
        return f"the output of layer {faulty[0]!r}"
    # In the backward pass, the layers nearest the loss come first.
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            return f"the gradient of {name!r}"
    return "the loss itself"


def _finite(value: Any) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in _tensors(value))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)


def raise_not_finite(
    path: Path, model: nn.Module, batch: Batch, forward: Callable[[], Any], *, step: int, main: bool = True
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
    outcome = f"are in {path}"
    if main:
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        tensors |= {f"gradient.{name}": tensor for name, tensor in gradients.items()}
        tensors |= {f"batch.{name}": tensor for name, tensor in batch._asdict().items()}
        try:
            write_tensors(path, tensors, {"step": step, "fault": fault})
        except OSError as error:
            outcome = f"could not be saved ({error.strerror or error})"
    raise RunError(
        f"step {step}: the loss or its gradient is not finite, first in {fault}. "
        f"Weights, gradients and batch of that step {outcome}. "
        "Usual remedies: a lower optimizer.lr, or some schedule.warmup_steps."
    )
