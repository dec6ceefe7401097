"""A routing that inherits from one with a kernel is its own: the kernel knows nothing of what it changed."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, ConvCaps, DenseCaps, RoutingOutput, create_routing
from torchcaps.routing import DynamicRouting, EMRouting
from torchcaps.votes import Votes


class Twice(DynamicRouting):
    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        for routed in super().iterate(votes, activation, start):
            yield routed._replace(pose=2 * routed.pose)


class TwiceEM(EMRouting):
    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        for routed in super().iterate(votes, activation, start):
            yield routed._replace(pose=2 * routed.pose)


def test_overridden_dynamic_is_what_trains() -> None:
    layer = DenseCaps(6, 8, 3, 4, routing=Twice())
    children = Capsules.from_vectors(torch.randn(2, 6, 8))
    torch.testing.assert_close(layer(children).pose, layer(children, coupling=True).pose)


def test_overridden_em_is_what_trains() -> None:
    layer = ConvCaps(2, 3, kernel_size=3, routing=TwiceEM(3))
    children = Capsules(torch.randn(2, 5, 5, 2, 16), torch.rand(2, 5, 5, 2))
    torch.testing.assert_close(layer(children).pose, layer(children, coupling=True).pose)


def test_a_bias_of_another_size_is_refused() -> None:
    layer = DenseCaps(6, 8, 3, 4, routing=create_routing("dynamic", bias=True, pose_dim=1, parents=3))
    with pytest.raises(ValueError, match="pose_dim=1"):
        layer(torch.randn(2, 6, 8))
