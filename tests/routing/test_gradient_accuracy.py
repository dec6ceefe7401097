"""float32 gradients keep their digits, also where only a few children of a field are alive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from support.layers import LEAKY, ROUTINGS
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps
from torchcaps.layers import CapsuleLayer
from torchcaps.testing import assert_gradient_accurate

# Poses of 4×4 or vectors, so that layers take their fused form where there is one.
GEOMETRIES: dict[str, tuple[Callable[..., CapsuleLayer], tuple[int, ...]]] = {
    "dense": (lambda **o: DenseCaps(6, 8, 5, 16, **o), (6, 8)),
    "dense-matrix": (lambda **o: DenseCaps(6, 16, 10, 16, pose="matrix", **o), (6, 16)),
    "shared": (lambda **o: SharedCaps(8, 5, 16, **o), (6, 8)),
    "shared-matrix": (lambda **o: SharedCaps(16, 5, 16, pose="matrix", **o), (6, 16)),
    "conv": (lambda **o: ConvCaps(2, 5, kernel_size=3, stride=2, padding=1, **o), (3, 3, 2, 16)),
    "conv-vector": (
        lambda **o: ConvCaps(2, 3, kernel_size=2, pose="vector", in_dim=8, out_dim=16, **o),
        (3, 3, 2, 8),
    ),
    "class": (lambda **o: ClassCaps(2, 5, **o), (2, 3, 2, 16)),
}


def draw(
    geometry: str, routing: str, live: int | None, *, seed: int = 0, scale: float = 1.0
) -> tuple[CapsuleLayer, Capsules]:
    """A layer, and two samples in which only the first `live` children are active; `None` for all of them."""
    make, shape = GEOMETRIES[geometry]
    torch.manual_seed(seed)
    layer = make(**{**ROUTINGS, **LEAKY}[routing])
    activation = torch.ones(2, *shape[:-1])
    if live is not None:
        activation.flatten(1)[:, live:] = 0
    return layer, Capsules(scale * torch.randn(2, *shape), activation)


# Two live children are the hardest case.
LIVE = [2, *(pytest.param(live, marks=pytest.mark.slow) for live in (1, 3, None))]


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("routing", {**ROUTINGS, **LEAKY})
def test_every_routing_and_geometry(routing: str, geometry: str, live: int | None) -> None:
    assert_gradient_accurate(*draw(geometry, routing, live))


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("live", [1, 2, 3])
@pytest.mark.parametrize("parents", [5, 10, 17])
def test_em_with_few_live_children(parents: int, live: int, scale: float) -> None:
    """Two votes lie one σ from their mean, whatever they are: an error of the mean breaks a symmetry."""
    for seed in range(10):
        torch.manual_seed(seed)
        layer = DenseCaps(6, 16, parents, 16, pose="matrix", routing="em")
        activation = torch.zeros(1, 6)
        activation[:, :live] = 1
        assert_gradient_accurate(
            layer, Capsules(scale * torch.randn(1, 6, 16), activation), multiple=0, floor=1e-3, trials=0
        )
