"""The forms in which a layer computes its parents, and how two results are compared."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer
from torchcaps.routing import RoutingOutput


def plain(layer: CapsuleLayer, capsules: Capsules) -> RoutingOutput:
    """The plain form: couplings are asked for, which no kernel has."""
    output: RoutingOutput = layer(capsules, coupling=True)
    return output


def fused(layer: CapsuleLayer, capsules: Capsules) -> RoutingOutput:
    """The form without couplings, which a fused kernel may compute."""
    output: RoutingOutput = layer(capsules)
    return output


Form = Callable[[CapsuleLayer, Capsules], RoutingOutput]


def forms(layer: CapsuleLayer, capsules: Capsules) -> dict[str, Form]:
    """The forms that this layer has; without couplings it may use a fused kernel. The laws hold for both."""
    found: dict[str, Form] = {"plain": plain}
    with torch.no_grad():
        votes = layer.votes(capsules)
        start = layer._start(votes, None)
        if start is None and layer.routing.fused(votes, capsules.activation.flatten(1)) is not None:
            found["fused"] = fused
    return found


def assert_close(got: Tensor, wanted: Tensor, atol: float, should: str, found: str) -> None:
    """Raise what should be and what was found, if two tensors differ.

    Args:
        got: a result.
        wanted: what it should be.
        atol: largest difference that is accepted.
        should: the law, as a sentence.
        found: what is not as it should be.

    Example:
        >>> assert_close(torch.zeros(2), torch.ones(2), 1e-5, "poses must be 1", "those of one child differ")
        Traceback (most recent call last):
        AssertionError: poses must be 1, but those of one child differ: off by 1, allowed: 1e-05
    """
    worst = float((got - wanted).detach().abs().max()) if got.numel() else 0.0
    assert worst <= atol, f"{should}, but {found}: off by {worst:.3g}, allowed: {atol:g}"
