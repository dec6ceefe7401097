"""The cost of fused EM routing when batch, positions, children or parents double; it should be linear."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from torchcaps.bench.measure import Row, seconds
from torchcaps.capsules import Capsules
from torchcaps.layers import ConvCaps

# Multiples of 16 parents fill the widest vectors, so that twice the parents are twice the operations.
BASE = {"batch": 8, "positions": 6, "children": 16, "parents": 32}


def step_seconds(
    *, batch: int, positions: int, children: int, parents: int, budget: float, device: str
) -> float:
    """Time of a forward and backward pass over a grid of `positions` × 6 with 3×3 kernels."""
    torch.manual_seed(0)
    layer = ConvCaps(children, parents, kernel_size=3).to(device)
    pose = torch.randn(batch, positions + 2, 8, children, 16, device=device, requires_grad=True)
    capsules = Capsules(pose, torch.rand(pose.shape[:-1], device=device))

    def step() -> None:
        layer(capsules).activation.sum().backward()

    return seconds(step, budget, device)


def scaling_rows(*, budget: float = 2.0, device: str = "cpu") -> Iterator[Row]:
    """Double each of the four sizes; a linear cost gives a ratio of about 2."""
    once = step_seconds(**BASE, budget=budget, device=device)
    for name, size in BASE.items():
        twice = step_seconds(**{**BASE, name: 2 * size}, budget=budget, device=device)
        yield {"doubled": name, "from": size, "to": 2 * size, "ms": 1e3 * twice, "ratio": twice / once}
