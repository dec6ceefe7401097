"""No routing waits for a GPU: nothing is read or copied to the CPU, in the forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from support.layers import LEAKY, ROUTINGS, small
from torchcaps import Capsules, kernels
from torchcaps.kernels import dispatch

# Tensors on "meta" have sizes and no numbers: whatever would wait for the numbers of a GPU is an error there.
DEVICE = "meta"


@pytest.mark.parametrize("geometry", ["dense-matrix", "conv", "conv-vector"])
@pytest.mark.parametrize("routing", [*ROUTINGS, *LEAKY])
def test_a_step_does_not_wait(routing: str, geometry: str) -> None:
    with kernels.disabled():
        step(*small(geometry, routing))


@pytest.mark.parametrize("routing", ["em", "em-mixing", "dynamic", "dynamic-leaky"])
def test_a_fused_step_does_not_wait(routing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "is_gpu", lambda device: True)
    monkeypatch.setattr(dispatch, "missing_on_gpu", "")
    step(*small("dense" if routing.startswith("dynamic") else "dense-matrix", routing))


def step(layer: torch.nn.Module, children: Capsules) -> None:
    capsules = Capsules(*(tensor.to(DEVICE).requires_grad_() for tensor in children))
    routed = layer.to(DEVICE)(capsules)
    (routed.pose.sum() + routed.activation.sum() + routed.logits.sum()).backward()
    assert capsules.pose.grad is not None


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.sum().item(),
        lambda t: t.tolist(),
        lambda t: bool((t > 0).all()),
        lambda t: t.cpu(),
        lambda t: t.to("cpu"),
        lambda t: t.nonzero(),
        lambda t: t[t > 0],
    ],
)
def test_every_way_to_wait_is_an_error(read: Callable[[Tensor], Any]) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        read(torch.ones(3, device=DEVICE))
