"""Every routing with its main options, every geometry, and layers with children made from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st

from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, squash
from torchcaps.layers import CapsuleLayer

# How many examples a property test takes: few, or many with HYPOTHESIS_PROFILE=slow. See tests/conftest.py.
FEW = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

Options = dict[str, Any]

ROUTINGS: dict[str, Options] = {
    "uniform": {"routing": "uniform"},
    "dynamic": {"routing": "dynamic"},
    "dynamic-fixed-point": {"routing": "dynamic", "update": "fixed_point"},
    "dynamic-bias": {"routing": "dynamic", "bias": True, "squash": "exp"},
    "kmeans": {"routing": "kmeans"},
    "kmeans-euclidean": {"routing": "kmeans", "metric": "euclidean", "temperature": 0.5},
    "kmeans-hard": {"routing": "kmeans", "metric": "euclidean", "temperature": 0},
    "em": {"routing": "em"},
    "em-mass": {"routing": "em", "normalize_mass": True, "inverse_temperature": 1.0, "beta_a": 0.5},
    "em-mixing": {"routing": "em", "activation": "mixing"},
    "em-full": {"routing": "em", "covariance": "full"},
    "em-spherical": {"routing": "em", "covariance": "spherical"},
    "em-fixed": {"routing": "em", "covariance": "fixed", "sigma": 0.7},
    "em-mixing-layer": {"routing": "em", "activation": "mixing_layer"},
    "em-shared-beta": {"routing": "em", "share_beta": True},
    "self-attention": {"routing": "self_attention"},
    "em-fixed-mixing": {"routing": "em", "covariance": "fixed", "activation": "mixing"},
    "heinsen": {"routing": "heinsen"},
    "heinsen-bias": {"routing": "heinsen", "bias": True},
    "self_routing": {"routing": "self_routing"},
    "inverted-attention": {"routing": "inverted_attention"},
    "sinkhorn": {"routing": "sinkhorn"},
    "sinkhorn-shares": {"routing": "sinkhorn", "learn_shares": True, "temperature": 1.0, "steps": 2},
    "variational": {"routing": "variational"},
    "variational-full": {"routing": "variational", "covariance": "full"},
}
# Outside the law that couplings add up to 1: a leaky child keeps a part for itself.
LEAKY: dict[str, Options] = {"dynamic-leaky": {"routing": "dynamic", "leaky": True}}

# Small layers, and the shape of children that fit them.
GEOMETRIES: dict[str, tuple[Callable[..., CapsuleLayer], tuple[int, ...]]] = {
    "dense": (lambda **o: DenseCaps(4, 3, 3, 2, **o), (4, 3)),
    "dense-matrix": (lambda **o: DenseCaps(3, 4, 2, 4, pose="matrix", **o), (3, 4)),
    "shared": (lambda **o: SharedCaps(3, 3, 2, **o), (4, 3)),
    "conv": (lambda **o: ConvCaps(1, 2, kernel_size=3, stride=2, padding=1, in_dim=4, **o), (4, 3, 1, 4)),
    "conv-vector": (
        lambda **o: ConvCaps(2, 2, kernel_size=2, pose="vector", in_dim=2, out_dim=3, **o),
        (3, 2, 2, 2),
    ),
    "class": (lambda **o: ClassCaps(2, 2, in_dim=4, **o), (2, 2, 2, 4)),
}


def children(shape: tuple[int, ...], batch: int = 2, *, dtype: torch.dtype = torch.float32) -> Capsules:
    """Random capsules of shape `[..., D]`, all somewhat alive."""
    pose = torch.randn(batch, *shape, dtype=dtype)
    return Capsules(pose, 0.1 + 0.8 * torch.rand(batch, *shape[:-1], dtype=dtype))


def small(geometry: str, routing: str, **more: Any) -> tuple[CapsuleLayer, Capsules]:
    """A small layer of this geometry with this routing, and children for it."""
    torch.manual_seed(0)
    make, shape = GEOMETRIES[geometry]
    layer = make(**{**ROUTINGS, **LEAKY}[routing], **more)
    with torch.no_grad():
        for parameter in layer.parameters():  # nothing symmetric, so that nothing cancels
            parameter.add_(0.2 * torch.randn_like(parameter))
    return layer, children(shape)


@st.composite
def layers(draw: st.DrawFn, geometry: str, options: Options) -> tuple[CapsuleLayer, Capsules]:
    """A layer of this geometry in any small size, and children for it; one child and one parent included."""
    torch.manual_seed(draw(st.integers(0, 1000)))
    types, parents, size_in, size_out, batch = (draw(st.integers(1, n)) for n in (4, 4, 5, 5, 3))
    side = draw(st.integers(1, 4))
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding = draw(st.integers(0, kernel - 1))
    least = max(1, kernel - 2 * padding)
    grid = (draw(st.integers(least, 6)), draw(st.integers(least, 6)))
    pose = "matrix" if geometry.endswith("matrix") else "vector"
    if pose == "matrix" or geometry in ("conv", "class"):
        size_in = size_out = side * side
    layer: CapsuleLayer
    if geometry.startswith("dense"):
        layer, shape = DenseCaps(types, size_in, parents, size_out, pose=pose, **options), (types,)
    elif geometry == "shared":
        layer, shape = SharedCaps(size_in, parents, size_out, **options), (types,)
    elif geometry == "class":
        layer = ClassCaps(types, parents, in_dim=side * side, coordinates=side > 1, **options)
        shape = (*grid, types)
    else:
        layer = ConvCaps(
            types,
            parents,
            kernel_size=kernel,
            stride=stride,
            padding=padding,
            pose="vector" if geometry == "conv-vector" else "matrix",
            in_dim=size_in,
            out_dim=size_out,
            **options,
        )
        shape = (*grid, types)
    capsules = children((*shape, size_in), batch)
    return layer, Capsules(squash(capsules.pose, "tanh") * 2, capsules.activation)
