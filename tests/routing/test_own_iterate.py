"""What an `iterate` of one's own yields is checked, and the error says what to write."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, ConvCaps, DenseCaps, Routing, RoutingOutput
from torchcaps.testing import assert_batch_independent, assert_couplings_normalized
from torchcaps.votes import Votes, weighted_sum


def mean_of(votes: Votes) -> RoutingOutput:
    coupling = votes.uniform()
    pose = votes.reduce(weighted_sum, coupling)
    presence = pose.mean(-1).sigmoid()
    return RoutingOutput(pose, presence, torch.logit(presence), coupling)


class Yields(Routing):
    """Yields whatever `change` makes of the right output."""

    def change(self, routed: RoutingOutput) -> Any:
        return routed

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        for _ in range(self.iterations):
            yield self.change(mean_of(votes))


class Returns(Routing):
    def iterate(self, votes: Votes, activation: Tensor, start: Tensor | None = None) -> Any:
        return mean_of(votes)


class Forgets(Routing):
    def iterate(self, votes: Votes, activation: Tensor, start: Tensor | None = None) -> Any:
        mean_of(votes)


class Nothing(Yields):
    def __init__(self) -> None:
        super().__init__()
        self.iterations = 0


class Tuples(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return tuple(routed)


class PoseAlone(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return routed.pose


class WithoutPosition(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return routed._replace(pose=routed.pose[:, 0])


class KeptSize(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return routed._replace(activation=routed.activation.unsqueeze(-1))


class Numbers(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return routed._replace(logits=0.5)


class Turned(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return routed._replace(coupling=routed.coupling.transpose(2, 3))  # type: ignore[union-attr]


class NoCoupling(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return routed._replace(coupling=None)


WRONG = {
    Returns: "iterate returned a RoutingOutput, but it must yield .* write yield in place of return",
    Forgets: "iterate returned None, but it must yield",
    Nothing: "Nothing.iterate yielded nothing: it must yield a RoutingOutput after each",
    Tuples: r"yielded a tuple, expected RoutingOutput\(pose, activation, logits, coupling\)",
    PoseAlone: "yielded a Tensor, expected RoutingOutput",
    WithoutPosition: r"yielded pose \[2, 3, 4\], expected \[B, P, J, D\] = \[2, 1, 3, 4\]",
    KeptSize: r"yielded activation \[2, 1, 3, 1\], expected \[B, P, J\] = \[2, 1, 3\]",
    Numbers: r"yielded a float as logits, expected a tensor \[B, P, J\]",
    Turned: r"yielded coupling \[2, 1, 3, 6\], expected \[B, P, I, J\] = \[2, 1, 6, 3\]",
}


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_a_wrong_iterate_is_named_in_a_sentence(kind: type[Routing]) -> None:
    layer, children = DenseCaps(6, 8, 3, 4, routing=kind()), torch.randn(2, 6, 8)
    for run in (layer, layer.history):
        with pytest.raises(ValueError, match=WRONG[kind]):
            run(children)
    with pytest.raises(ValueError, match=WRONG[kind]):
        assert_batch_independent(layer, Capsules.from_vectors(children))


def test_couplings_are_needed_only_where_they_are_asked_for() -> None:
    layer, children = DenseCaps(6, 8, 3, 4, routing=NoCoupling()), torch.randn(2, 6, 8)
    assert layer(children).coupling is None
    sentence = r"yielded no coupling, which was asked for: .* \[B, P, I, J\] = \[2, 1, 6, 3\]"
    with pytest.raises(ValueError, match=sentence):
        layer(children, coupling=True)
    with pytest.raises(ValueError, match=sentence):
        assert_couplings_normalized(layer, Capsules.from_vectors(children))


def test_a_right_iterate_is_taken_on_a_grid_and_as_a_list() -> None:
    class Listed(Yields):
        def iterate(self, votes: Votes, activation: Tensor, start: Tensor | None = None) -> Any:
            return [mean_of(votes), mean_of(votes)]

    children = Capsules(torch.randn(2, 5, 5, 2, 16), torch.rand(2, 5, 5, 2))
    for routing in (Yields(), Listed()):
        layer = ConvCaps(2, 3, kernel_size=3, routing=routing)
        assert layer(children, coupling=True).coupling.shape == (2, 3, 3, 18, 3)
        assert_couplings_normalized(layer, children)


def test_an_own_routing_can_be_compiled_exported_and_traced() -> None:
    layer, children = DenseCaps(6, 8, 3, 4, routing=Yields()).eval(), torch.randn(2, 6, 8)
    wanted = layer(children).pose
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(children).pose, wanted)
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(Poses(layer), (children,), dynamic_shapes=(batch,))
    assert program.module()(torch.randn(5, 6, 8)).shape == (5, 3, 4)
    torch.testing.assert_close(torch.jit.trace(Poses(layer), children)(children), wanted)


class Poses(torch.nn.Module):
    """The poses alone, which every exporter can return."""

    def __init__(self, layer: DenseCaps) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, children: Tensor) -> Tensor:
        return self.layer(children).pose
