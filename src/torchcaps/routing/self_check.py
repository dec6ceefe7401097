"""Compares the kernels for GPUs with the plain form, in value and gradient, on small layers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from torchcaps import kernels
from torchcaps.kernels.trust import Comparison
from torchcaps.routing.base import Routing, RoutingOutput
from torchcaps.routing.dynamic import DynamicRouting
from torchcaps.routing.em import EMRouting
from torchcaps.votes import ClassVotes, ConvVotes, DenseVotes, SharedVotes, Votes

# Largest differences that count as rounding, relative to the largest number; a kernel may also be ten times
# as inaccurate as the plain form in float32, since some problems are ill-conditioned.
VALUES, GRADIENTS = 1e-5, 2e-4
# Where all terms cancel, only rounding errors are left, and they have no relation to the result.
FLOORS = {VALUES: 0.01, GRADIENTS: 0.1}


@dataclass(frozen=True)
class Layer:
    """A routing and the sizes of what it routes.

    Attributes:
        routing: the routing.
        pose: shape of the children's poses.
        weight: shape of the weight.
        geometry: the class of the votes.
        options: of the votes.
    """

    routing: Routing
    pose: tuple[int, ...]
    weight: tuple[int, ...]
    geometry: Callable[..., Votes]
    options: dict[str, Any]


def _em(
    pose: tuple[int, ...], weight: tuple[int, ...], votes: Any, routing: Any = (), **options: Any
) -> Layer:
    made = EMRouting(weight[-1], **dict(routing))
    return Layer(made, (*pose, 16), (*weight, 4, 4), votes, {"space": "matrix", **options})


def _dynamic(
    pose: tuple[int, ...], weight: tuple[int, ...], votes: Any, routing: Any = (), **options: Any
) -> Layer:
    return Layer(DynamicRouting(weight[-3], **dict(routing)), pose, weight, votes, options)


def layers(everything: bool = True) -> dict[str, Layer]:
    """Small layers by name; those of the first use alone, or all: every geometry and option, odd sizes."""
    few = {
        "EM, conv": _em((2, 6, 5, 3), (27, 4), ConvVotes, kernel_size=3, stride=2, padding=1),
        "EM, class, mixing": _em((2, 3, 2, 3), (3, 5), ClassVotes, {"activation": "mixing"}),
        "dynamic, dense": _dynamic((2, 6, 5), (6, 4, 5, 7), DenseVotes),
    }
    if not everything:
        return few
    conv = {"kernel_size": 3, "stride": 2, "padding": 1}
    small = {"kernel_size": 2, "stride": 1, "padding": 1}
    return few | {
        "EM, conv, mixing": _em((1, 4, 4, 2), (18, 3), ConvVotes, {"activation": "mixing"}, **conv),
        "EM, conv, stride 3": _em((1, 5, 5, 1), (4, 2), ConvVotes, kernel_size=2, stride=3),
        "EM, conv, 32 types": _em((2, 5, 5, 32), (288, 32), ConvVotes, **conv),
        "EM, class": _em((2, 4, 4, 32), (32, 5), ClassVotes),
        "EM, dense": _em((2, 7), (7, 3), DenseVotes),
        "EM, dense, one iteration": _em((2, 7), (7, 3), DenseVotes, {"iterations": 1}),
        "EM, dense, normalized": _em((2, 9), (9, 20), DenseVotes, {"normalize_mass": True}),
        "EM, shared, four iterations": _em((3, 7), (3,), SharedVotes, {"iterations": 4}),
        "dynamic, dense, 1152 children": _dynamic((3, 1152, 8), (1152, 10, 8, 16), DenseVotes),
        "dynamic, dense, last": _dynamic((2, 6, 5), (6, 4, 5, 7), DenseVotes, {"gradient": "last"}),
        "dynamic, shared, leaky": _dynamic((2, 6, 5), (4, 5, 7), SharedVotes, {"leaky": True}),
        "dynamic, conv": _dynamic((2, 4, 3, 1, 5), (4, 4, 5, 7), ConvVotes, **small),
        "dynamic, conv, fixed point": _dynamic(
            (2, 4, 3, 2, 8), (8, 3, 8, 16), ConvVotes, {"update": "fixed_point"}, **small
        ),
    }  # fmt: skip


def check(device: torch.device, everything: bool = False) -> list[Comparison]:
    """Compare the kernels with the plain form on a device.

    An error of a kernel, such as one of its compiler, is a difference too. Random numbers come from
    generators of the check's own.

    Args:
        device: where.
        everything: all layers and not only those of the first use.
    """
    found: list[Comparison] = []
    # A caller may trace, record or transform what it runs; none of this is part of that.
    with (
        _disable_current_modes(),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
        torch.random.fork_rng(devices=[]),
    ):
        torch.manual_seed(0)
        for name, layer in layers(everything).items():
            try:
                found += compare(name, layer, device)
            except Exception as error:  # whatever it is, the plain form must be used
                text = " ".join(str(error).split())
                found.append(Comparison(name, error=f"{type(error).__name__}: {text[:500]}"))
    return found


def compare(name: str, layer: Layer, device: torch.device) -> list[Comparison]:
    """Compare outputs and gradients of one layer."""
    generator = torch.Generator().manual_seed(1)
    pose = torch.randn(layer.pose, generator=generator)
    weight = 0.3 * torch.randn(layer.weight, generator=generator)
    if layer.options.get("space") == "matrix":
        weight += torch.eye(4)
    activation = torch.rand(layer.pose[0], pose[0, ..., 0].numel(), generator=generator)
    routing = copy.deepcopy(layer.routing)
    with torch.no_grad():
        for parameter in routing.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    inputs = [tensor.to(device) for tensor in (pose, weight, activation)]
    routing = routing.to(device)
    with kernels.enabled():
        fused = _run(routing, layer, inputs, fused=True)
    with kernels.disabled():
        plain = _run(routing, layer, inputs, fused=False)
        doubles = [tensor.double() for tensor in inputs]
        exact = _run(copy.deepcopy(routing).double(), layer, doubles, fused=False)
    labels = ["pose", "activation", "logits"]
    gradients = ["pose", "weight", "activation", *(name for name, _ in routing.named_parameters())]
    labels += [f"gradient of {each}" for each in gradients]
    found = []
    for label, actual, other, expected in zip(labels, fused, plain, exact):
        limit = GRADIENTS if label.startswith("gradient") else VALUES
        allowed = max(limit, 10 * _difference(other, expected, FLOORS[limit]))
        found.append(Comparison(name, label, _difference(actual, expected, FLOORS[limit]), allowed))
    return found


def _run(routing: Routing, layer: Layer, inputs: list[Tensor], *, fused: bool) -> list[Tensor]:
    """Outputs, and gradients of a weighted sum of them by inputs and parameters."""
    pose, weight, activation = leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    votes = layer.geometry(pose, weight, **layer.options)
    result: RoutingOutput | None = routing.fused(votes, activation) if fused else routing(votes, activation)
    if result is None:
        raise RuntimeError("no kernel fits this layer")
    outputs = [result.pose, result.activation, result.logits]
    generator = torch.Generator().manual_seed(2)
    factors = [torch.randn(out.shape, generator=generator).to(out) for out in outputs]
    loss = torch.stack([(out * factor).sum() for out, factor in zip(outputs, factors)]).sum()
    tensors = [*leaves, *routing.parameters()]
    gradients = torch.autograd.grad(loss, tensors, allow_unused=True)
    zeros = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients)]
    return [tensor.detach() for tensor in [*outputs, *zeros]]


def _difference(actual: Tensor, expected: Tensor, floor: float) -> float:
    scale = expected.abs().max().clamp(min=floor)
    return float((actual - expected).abs().max() / scale)
