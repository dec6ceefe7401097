"""What an `iterate` of one's own yields is checked, and the error says what to write."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, ConvCaps, DenseCaps, Routing, RoutingOutput
from torchcaps.testing import (
    assert_batch_independent,
    assert_couplings_normalized,
    assert_finite_everywhere,
    assert_iterations,
    assert_padding_never_votes,
    assert_start_used,
)
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


class Once(Yields):
    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        yield mean_of(votes)


class OnceBySignature(Once):
    def __init__(self, parents: int = 1) -> None:
        super().__init__(parents, iterations=1)


def test_a_law_counts_the_iterations() -> None:
    children = Capsules.from_vectors(torch.randn(2, 6, 8))
    for right in (Yields(), OnceBySignature()):
        assert_iterations(DenseCaps(6, 8, 3, 4, routing=right), children)
    with pytest.raises(
        AssertionError, match=r"but it yielded 1 times with iterations=2\. If it has a single"
    ):
        assert_iterations(DenseCaps(6, 8, 3, 4, routing=Once()), children)


def test_a_law_finds_a_start_that_is_ignored() -> None:
    children = Capsules.from_vectors(torch.randn(2, 6, 8))
    with pytest.raises(AssertionError, match="another start must give other parents, but"):
        assert_start_used(DenseCaps(6, 8, 3, 4, routing=Yields()), children)


class Middle(Routing):
    """The median of the votes, with or without the places outside the image."""

    def __init__(self, masked: bool) -> None:
        super().__init__(iterations=1)
        self.masked = masked

    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        vote = votes.tensor()
        if self.masked:
            vote = vote.masked_fill(~votes.inside[..., None, None], torch.nan)
        pose = vote.nanmedian(2).values
        presence = pose.mean(-1).sigmoid()
        yield RoutingOutput(pose, presence, torch.logit(presence), votes.uniform())


def test_a_law_finds_padding_that_votes() -> None:
    children = Capsules(torch.randn(2, 4, 4, 2, 16), torch.rand(2, 4, 4, 2))
    right, wrong = (
        ConvCaps(2, 3, kernel_size=3, padding=1, routing=Middle(masked)) for masked in (True, False)
    )
    assert_padding_never_votes(right, children)
    with pytest.raises(AssertionError, match=r"outside the image.* must change nothing \(see votes.inside\)"):
        assert_padding_never_votes(wrong, children)
    with pytest.raises(ValueError, match="take one with padding"):
        assert_padding_never_votes(ConvCaps(2, 3, kernel_size=3, routing=Middle(True)), children)


class Thrice(Yields):
    def change(self, routed: RoutingOutput) -> Any:
        return routed._replace(pose=routed.pose / 0, coupling=3 * routed.coupling)  # type: ignore[operator]


def test_a_broken_law_says_what_should_hold_and_what_was_found() -> None:
    layer, children = DenseCaps(6, 8, 3, 4, routing=Thrice()), Capsules.from_vectors(torch.randn(2, 6, 8))
    sentence = (
        r"couplings of a child must add up to 1 .*, but at iteration 1 those of one add up to 3: off by 2"
    )
    with pytest.raises(AssertionError, match=sentence):
        assert_couplings_normalized(layer, children)
    with pytest.raises(
        AssertionError, match=r"must be finite .*, but of the pose with poses of zero 24 of 24"
    ):
        assert_finite_everywhere(layer, children)


def test_an_iterate_without_a_start_is_refused_where_it_is_written() -> None:
    sentence = (
        r"Short.iterate\(self, votes, activation\) cannot be .*: write iterate\(self, votes, activation, "
    )
    with pytest.raises(TypeError, match=sentence):

        class Short(Routing):
            def iterate(self, votes: Votes, activation: Tensor):  # type: ignore[no-untyped-def, override]
                yield mean_of(votes)


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
