"""Inputs for both forms of a routing, the fused and the plain one, and how much the forms may differ."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from torchcaps.routing import Routing, RoutingOutput
from torchcaps.votes import ClassVotes, ConvVotes, DenseVotes, SharedVotes, Votes

# Largest differences, relative to the largest number of a tensor.
VALUES = {torch.float32: 1e-5, torch.float64: 1e-12}
GRADIENTS = {torch.float32: 2e-4, torch.float64: 1e-11}


@dataclass
class Case:
    """Inputs of a routing and the geometry between them."""

    pose: Tensor
    weight: Tensor
    activation: Tensor
    geometry: Callable[[Tensor, Tensor], Votes]

    def leaves(self) -> list[Tensor]:
        """Copies that require gradients, with the same strides."""
        return [t.detach().requires_grad_() for t in (self.pose, self.weight, self.activation)]

    def votes(self) -> Votes:
        """The votes of these inputs."""
        return self.geometry(self.pose, self.weight)


def matrix_weight(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.eye(4, dtype=dtype) + 0.3 * torch.randn(*shape, 4, 4, dtype=dtype)


def conv(
    batch: int = 2, height: int = 6, width: int = 5, types: int = 3, parents: int = 4,
    kernel_size: int = 3, stride: int = 2, padding: int = 1, dtype: torch.dtype = torch.float64,
) -> Case:  # fmt: skip
    def geometry(pose: Tensor, weight: Tensor) -> Votes:
        return ConvVotes(
            pose, weight, kernel_size=kernel_size, stride=stride, padding=padding, space="matrix"
        )

    return Case(
        torch.randn(batch, height, width, types, 16, dtype=dtype),
        matrix_weight(kernel_size**2 * types, parents, dtype=dtype),
        torch.rand(batch, height * width * types, dtype=dtype),
        geometry,
    )


def classes(batch: int = 2, types: int = 3, parents: int = 5, dtype: torch.dtype = torch.float64) -> Case:
    return Case(
        torch.randn(batch, 3, 2, types, 16, dtype=dtype),
        matrix_weight(types, parents, dtype=dtype),
        torch.rand(batch, 6 * types, dtype=dtype),
        lambda pose, weight: ClassVotes(pose, weight, space="matrix"),
    )


def dense_matrix(
    batch: int = 2, children: int = 7, parents: int = 3, dtype: torch.dtype = torch.float64
) -> Case:
    return Case(
        torch.randn(batch, children, 16, dtype=dtype),
        matrix_weight(children, parents, dtype=dtype),
        torch.rand(batch, children, dtype=dtype),
        lambda pose, weight: DenseVotes(pose, weight, space="matrix"),
    )


def shared_matrix(
    batch: int = 2, children: int = 7, parents: int = 3, dtype: torch.dtype = torch.float64
) -> Case:
    return Case(
        torch.randn(batch, children, 16, dtype=dtype),
        matrix_weight(parents, dtype=dtype),
        torch.rand(batch, children, dtype=dtype),
        lambda pose, weight: SharedVotes(pose, weight, space="matrix"),
    )


def vectors(
    shared: bool = False, batch: int = 2, children: int = 6, parents: int = 4, size_in: int = 5,
    size_out: int = 7, dtype: torch.dtype = torch.float64,
) -> Case:  # fmt: skip
    rows = () if shared else (children,)
    return Case(
        torch.randn(batch, children, size_in, dtype=dtype),
        0.5 * torch.randn(*rows, parents, size_in, size_out, dtype=dtype),
        torch.rand(batch, children, dtype=dtype),
        SharedVotes if shared else DenseVotes,
    )


def outputs(result: RoutingOutput) -> list[Tensor]:
    return [result.pose, result.activation, result.logits]


def run(routing: Routing, case: Case, *, fused: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs, and the gradients of a weighted sum of them by inputs and parameters."""
    pose, weight, activation = leaves = case.leaves()
    routing.zero_grad()
    result = routing(case.geometry(pose, weight), activation, coupling=not fused)
    if fused:
        assert routing.fused(case.geometry(pose, weight), activation) is not None, "no kernel fits"
    generator = torch.Generator().manual_seed(7)
    loss = sum(
        (out * torch.randn(out.shape, generator=generator).to(out.dtype)).sum() for out in outputs(result)
    )
    tensors = [*leaves, *routing.parameters()]
    gradients = torch.autograd.grad(loss, tensors, allow_unused=True)  # type: ignore[arg-type]
    zeros = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients)]
    return [out.detach() for out in outputs(result)], zeros


def difference(actual: Tensor, expected: Tensor, floor: float = 0.01) -> float:
    """The largest difference, relative to the largest expected number, or to `floor` if that is larger.

    Where all terms cancel, only rounding errors are left, and they have no relation to the result.
    """
    if expected.numel() == 0:
        return 0.0
    return ((actual - expected).abs().max() / expected.abs().max().clamp(min=floor)).item()


def in_double(routing: Routing, case: Case) -> tuple[Routing, Case]:
    pose, weight, activation = (t.double() for t in (case.pose, case.weight, case.activation))
    return copy.deepcopy(routing).double(), Case(pose, weight, activation, case.geometry)


def assert_forms_agree(routing: Routing, case: Case) -> None:
    """Check that the kernel has the outputs and gradients of the plain form.

    In float32 both are compared with the plain form in float64, and the kernel may be ten times as inaccurate
    as the plain form, as some problems are ill-conditioned.
    """
    dtype = case.pose.dtype
    fused = run(routing, case, fused=True)
    # In float32 throughout: one sample with few children makes the plain form take float64 for all.
    with patch("torchcaps.routing.precision.few_children", return_value=False):
        plain = run(routing, case, fused=False)
    exact = run(*in_double(routing, case), fused=False)
    names = ["pose", "weight", "activation", *(name for name, _ in routing.named_parameters())]
    for kind, limit, labels in (
        (0, VALUES[dtype], ("pose", "activation", "logit")),
        (1, GRADIENTS[dtype], names),
    ):
        for name, actual, other, expected in zip(labels, fused[kind], plain[kind], exact[kind]):
            assert actual.dtype == other.dtype
            floor = 0.1 if kind else 0.01
            allowed = max(limit, 10 * difference(other, expected, floor))
            message = f"gradient by {name}" if kind else name
            assert difference(actual, expected, floor) <= allowed, message


def operator(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Both passes as one function with gradients, as the operators of a GPU are."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
            *outputs, kept = forward(*arguments)
            ctx.arguments, ctx.kept = arguments, kept
            return tuple(outputs)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            results = backward(*grads, ctx.kept, *ctx.arguments)
            count = len(ctx.arguments)
            pairs = zip(ctx.arguments, [*results, *[None] * (count - len(results))])
            return tuple(grad if isinstance(value, Tensor) else None for value, grad in pairs)

    return lambda *arguments: (*Function.apply(*arguments), None)
