"""The plain form of vector routings in float32, at scales whose squares are no float32 numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, DenseCaps, SharedCaps
from torchcaps.layers import CapsuleLayer

LAYERS = {
    "dense": lambda **options: DenseCaps(6, 8, 5, 16, **options),
    "shared": lambda **options: SharedCaps(8, 5, 16, **options),
}
SCALES = [1e-37, 1e-30, 1e-25, 1e-22, 1e-20, 1e-18, 1e-15, 1e-10, 1.0, 1e10, 1e13, 1e15, 1e17]


def outputs_and_gradient(layer: CapsuleLayer, pose: Tensor) -> dict[str, Tensor]:
    """Poses and activations of the parents, and the gradient of a weighted sum of the poses."""
    pose = pose.clone().requires_grad_()
    activation = torch.ones(pose.shape[:-1], dtype=pose.dtype)
    parents = layer(Capsules(pose, activation), coupling=True)  # with couplings it is the plain form
    weights = torch.randn(parents.pose.shape, generator=torch.Generator().manual_seed(1)).to(pose)
    (gradient,) = torch.autograd.grad(parents.pose, pose, weights)
    outputs = {"pose": parents.pose, "activation": parents.activation, "gradient": gradient}
    return {name: values.detach().double() for name, values in outputs.items()}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("routing", ["uniform", "dynamic"])
@pytest.mark.parametrize("geometry", LAYERS)
def test_float32_equals_float64(geometry: str, routing: str, scale: float) -> None:
    torch.manual_seed(0)
    layer = LAYERS[geometry](routing=routing)
    pose = torch.randn(2, 6, 8) * scale
    single = outputs_and_gradient(layer, pose)
    double = outputs_and_gradient(layer.double(), pose.double())
    for name, exact in double.items():
        error, size = float((single[name] - exact).norm()), float(exact.norm())
        # Numbers below 1e-38 have fewer digits in float32.
        assert error <= 1e-4 * size + 1e-43, f"{name}: off by {error / size:.2g}"
