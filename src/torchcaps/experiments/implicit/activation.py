"""The activation y + cos y = x: exact, unrolled, and inside a small network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

UNROLLED = (0, 1, 2, 3, 5, 10, 20, 50)
RANGE = 8.0
EXACT, RELU, LINEAR = "exact solution", "ReLU", "no activation"
# Unrolled iterations of the networks that are trained.
TRAINED = (1, 2, 3, 5, 10)
ARMS = 3
Activation = Callable[[Tensor], Tensor]


def unrolled(x: Tensor, iterations: int) -> Tensor:
    """Approximate the solution of y + cos y = x by y ← x − cos y, starting from y = x.

    >>> unrolled(torch.tensor([0.0]), 1)
    tensor([-1.])
    """
    y = x
    for _ in range(iterations):
        y = x - torch.cos(y)
    return y


def solve(x: Tensor) -> Tensor:
    """The solution of y + cos y = x by bisection; it is unique, because y + cos y never decreases.

    >>> round(float(solve(torch.tensor(torch.pi - 1, dtype=torch.float64))), 6)
    3.141593
    """
    low, high = x - 1, x + 1
    for _ in range(60):
        middle = (low + high) / 2
        below = middle + torch.cos(middle) < x
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return high


class ImplicitActivation(torch.autograd.Function):
    """The exact solution, with the gradient of the implicit function theorem: dy/dx = 1 / (1 − sin y)."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        """Solve the equation."""
        y = solve(x.double()).to(x.dtype)
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        """The gradient; where 1 − sin y is almost 0 it is limited to 100."""
        (y,) = context.saved_tensors
        return gradients[0] * slope(y).clamp(max=100)


def slope(y: Tensor) -> Tensor:
    """The derivative dy/dx of the solution, infinite where sin y = 1.

    >>> slope(torch.tensor([0.0, -torch.pi / 2]))
    tensor([1.0000, 0.5000])
    """
    return 1 / (1 - torch.sin(y))


def measure_convergence() -> dict[str, dict[str, float]]:
    """How far value and slope of the unrolled form are from the solution, for |x| ≤ `RANGE`.

    Returns:
        By number of iterations: `error`, the mean difference of y; `median`, its median; `slope`, the median
        of the relative difference of dy/dx.
    """
    points = torch.linspace(-RANGE, RANGE, 4001, dtype=torch.float64)
    exact = solve(points)
    results = {}
    for iterations in UNROLLED:
        x = points.clone().requires_grad_()
        y = unrolled(x, iterations)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        error = (y.detach() - exact).abs()
        relative = (gradient / slope(exact) - 1).abs()
        results[str(iterations)] = {
            "error": float(error.mean()),
            "median": float(error.median()),
            "slope": float(relative.median()),
        }
    return results


def activations() -> dict[str, Activation]:
    """The activations of the networks that are compared, by name."""
    named: dict[str, Activation] = {f"{count} unrolled": _unrolled_by(count) for count in TRAINED}
    return named | {EXACT: ImplicitActivation.apply, RELU: torch.relu, LINEAR: lambda x: x}


def _unrolled_by(count: int) -> Activation:
    return lambda x: unrolled(x, count)


def train_classifier(activation: Activation, seed: int, steps: int) -> dict[str, float]:
    """Train a small network, 2 → 32 → 32 → 3, to tell the arms of a spiral from each other.

    Args:
        activation: of both hidden layers.
        seed: of points, weights and batches.
        steps: of Adam, with 64 points each.

    Returns:
        `test`, the accuracy in percent.
    """
    generator = torch.Generator().manual_seed(seed)
    points, arms = make_spiral(600, generator)
    test_points, test_arms = make_spiral(2000, generator)
    torch.manual_seed(seed)
    layers = nn.ModuleList([nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, ARMS)])

    def classify(points: Tensor) -> Tensor:
        return layers[2](activation(layers[1](activation(layers[0](points)))))

    optimizer = torch.optim.Adam(layers.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = torch.randint(len(arms), (64,), generator=generator)
        loss = F.cross_entropy(classify(points[batch]), arms[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        right = classify(test_points).argmax(1) == test_arms
    return {"test": 100 * float(right.double().mean())}


def make_spiral(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noisy points `[count, 2]` on the arms of a spiral, and the arm of each; no line separates the arms.

    >>> points, arms = make_spiral(5, torch.Generator().manual_seed(0))
    >>> points.shape, arms.max() < ARMS
    (torch.Size([5, 2]), tensor(True))
    """
    arms = torch.randint(ARMS, (count,), generator=generator)
    radius = 0.2 + 1.8 * torch.rand(count, generator=generator).sqrt()
    angle = 2 * torch.pi * arms / ARMS + 2.2 * radius
    points = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], 1)
    return points + 0.08 * torch.randn(count, 2, generator=generator), arms
