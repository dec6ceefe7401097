"""Forward-mode differentiation of every routing agrees with the backward pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, DenseCaps, list_routings

# Those that compute in float64 inside, which with few children more do.
PRECISE = [("em", "rows"), ("em", "full"), ("variational", "full")]
CASES = [
    *((name, {}) for name in list_routings()),
    *((name, {"covariance": kind}) for name, kind in PRECISE),
]


@pytest.mark.parametrize("children", [3, 6])
@pytest.mark.parametrize(("routing", "options"), CASES, ids=str)
def test_forward_mode_agrees_with_the_backward_pass(routing: str, options: dict, children: int) -> None:
    torch.manual_seed(0)
    layer = DenseCaps(children, 16, 2, 16, pose="matrix", routing=routing, **options)
    pose, direction = torch.randn(2, 2, children, 16)
    activation = torch.rand(2, children)

    def summed(pose: Tensor) -> Tensor:
        routed = layer(Capsules(pose, activation))
        return routed.pose.square().sum() + routed.logits.sum()

    _, slope = torch.func.jvp(summed, (pose,), (direction,))
    gradient = torch.func.grad(summed)(pose)
    torch.testing.assert_close(slope, (gradient * direction).sum(), rtol=1e-3, atol=1e-3)
