"""float32 gradients keep their digits, also where only a few children of a field are alive."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import pytest
import torch

from support.layers import LEAKY, ROUTINGS
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, kernels
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


def few_alive(parents: int, live: int, scale: float, seed: int) -> tuple[DenseCaps, Capsules]:
    torch.manual_seed(seed)
    layer = DenseCaps(6, 16, parents, 16, pose="matrix", routing="em")
    activation = torch.zeros(1, 6)
    activation[:, :live] = 1
    return layer, Capsules(scale * torch.randn(1, 6, 16), activation)


# Without a multiple: not even what an ill-conditioned problem would excuse. Two votes lie one σ from their
# mean, whatever they are: terms of the gradients cancel that are a million times as large as their sum.
STRICT: dict[str, Any] = {"multiple": 0.0, "floor": 1e-5, "trials": 0, "each": True}


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("live", [1, 2, 3])
@pytest.mark.parametrize("parents", [5, 10, 17])
def test_each_gradient_of_em_with_few_live_children(parents: int, live: int, scale: float) -> None:
    for seed in range(6):
        assert_gradient_accurate(*few_alive(parents, live, scale, seed), **STRICT)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_each_gradient_of_em_with_two_live_children_in_many_draws(scale: float) -> None:
    for parents, seed in product([5, 10, 17], range(67)):
        assert_gradient_accurate(*few_alive(parents, 2, scale, seed), **STRICT)


def test_few_live_children_among_many_in_one_sample_of_a_batch() -> None:
    """The other sample is computed in float32 by the fused form; the gradients of parameters are sums."""
    torch.manual_seed(0)
    layer = DenseCaps(40, 16, 10, 16, pose="matrix", routing="em")
    activation = torch.rand(3, 40)
    activation[1] = 0
    activation[1, [3, 17]] = 1
    assert_gradient_accurate(layer, Capsules(torch.randn(3, 40, 16), activation), each=True)


@pytest.mark.parametrize(("pose", "in_dim", "out_dim"), [("matrix", 16, 16), ("vector", 2, 3)])
def test_two_live_children_of_large_poses_in_heinsen_routing(pose: str, in_dim: int, out_dim: int) -> None:
    for seed in range(6):
        torch.manual_seed(seed)
        layer = DenseCaps(6, in_dim, 5, out_dim, pose=pose, routing="heinsen")
        with torch.no_grad():
            layer.routing.beta_use.normal_()
            layer.routing.beta_ignore.normal_()
        activation = torch.zeros(1, 6)
        activation[:, :2] = 1
        assert_gradient_accurate(layer, Capsules(1e5 * torch.randn(1, 6, in_dim), activation), **STRICT)


def test_the_activations_of_dead_children_in_sinkhorn_routing() -> None:
    """Dead children may be far nearer to a center than live ones: large terms of their gradients cancel."""
    for seed in range(8):
        torch.manual_seed(seed)
        layer = DenseCaps(8, 1, 5, 1, pose="vector", routing="sinkhorn")
        activation = torch.zeros(1, 8)
        activation[:, [0, 5]] = 1
        assert_gradient_accurate(layer, Capsules(1e9 * torch.randn(1, 8, 1), activation))


def test_the_activation_of_a_dead_child_in_kmeans() -> None:
    """Its gradient is a sum over parents of very small mass, in this draw all above the limit of float32."""
    torch.manual_seed(2)
    layer = DenseCaps(4, 4, 5, 4, pose="vector", routing="kmeans", metric="euclidean", temperature=10.0)
    children = Capsules(100 * torch.randn(1, 4, 4), torch.tensor([[1.0, 1.0, 1.0, 0.0]]))
    assert_gradient_accurate(layer, children)


@pytest.mark.parametrize(
    "options",
    [
        {"routing": "self_routing"},
        {"routing": "em", "activation": "mixing", "covariance": "full"},
        {"routing": "em", "activation": "mixing"},
        {"routing": "em", "activation": "mixing_layer"},
    ],
    ids=str,
)
def test_a_single_child_shares_with_nobody_however_inactive_it_is(options: dict[str, Any]) -> None:
    """Its share of the mass is 1: the gradient is 0, and not the rounding error of 1 / 1e-18."""
    torch.manual_seed(0)
    layer = DenseCaps(1, 16, 5, 16, pose="matrix", **options)
    for form in (kernels.disabled, nullcontext):
        activation = (1e-18 * (1 + torch.rand(20, 1))).requires_grad_()
        with form():
            parents = layer(Capsules(torch.randn(20, 1, 16), activation))
        weights = torch.randn(parents.pose.shape), torch.randn(parents.logits.shape)
        loss = (parents.pose * weights[0]).sum() + (parents.logits * weights[1]).sum()
        (gradient,) = torch.autograd.grad(loss, [activation])
        assert float((gradient * activation).detach().abs().max()) < 1e-9
