from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps.capsules import Capsules
from torchcaps.layers.base import CapsuleLayer, _as_grid, as_capsules
from torchcaps.routing import InvertedAttentionRouting, RoutingOutput


class ConcurrentCaps(nn.Module):
    r"""A stack of capsule layers that are routed at the same time (Tsai et al. 2020).

    The first pass goes from the bottom to the top with even shares. In every later pass t each layer l takes
    its children and its parents from the pass before,

    .. math::
        p^{(t)}_l = \operatorname{step}\big(p^{(t-1)}_{l-1},\ p^{(t-1)}_l\big)

    so that all layers could be computed in parallel, and what a layer finds in one pass reaches the layer
    below it in the next. The capsules that enter the stack stay as they are. With one pass this is
    `nn.Sequential`.

    Forward hooks of a layer see its first pass; `history` returns all of them.

    Args:
        layers: capsule layers, from the bottom up. The routing of each is `"inverted_attention"` with
            `iterations=1`, since the passes are counted here.
        iterations: number of passes.

    Shape: what the first layer takes, to what the last layer returns.

    Example:
        >>> import torch
        >>> from torchcaps.layers import ClassCaps, ConvCaps
        >>> routing = {"routing": "inverted_attention", "iterations": 1}
        >>> stack = ConcurrentCaps([ConvCaps(8, 16, kernel_size=3, **routing), ClassCaps(16, 5, **routing)])
        >>> stack(Capsules(torch.randn(2, 5, 5, 8, 16), torch.ones(2, 5, 5, 8))).logits.shape
        torch.Size([2, 5])
    """

    def __init__(self, layers: Iterable[CapsuleLayer], iterations: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.iterations = check_count("iterations", iterations)
        if not self.layers:
            raise ValueError("layers must have at least one capsule layer, got none")
        for number, layer in enumerate(self.layers):
            if not isinstance(layer, CapsuleLayer):
                raise ValueError(f"layers[{number}] must be a capsule layer, got {type(layer).__name__}")
            routing = layer.routing
            if not isinstance(routing, InvertedAttentionRouting) or routing.iterations != 1:
                raise ValueError(
                    f"layers[{number}] must have routing='inverted_attention' with iterations=1, "
                    f"got {type(routing).__name__} with iterations={routing.iterations}"
                )

    def forward(
        self, capsules: Capsules | RoutingOutput | Tensor, *, coupling: bool = False
    ) -> RoutingOutput:
        """Parents of the last layer after the last pass.

        Args:
            capsules: the children of the first layer, in any form that a capsule layer takes.
            coupling: whether to return the couplings of the last layer as well.
        """
        for routed in self._passes(capsules):  # noqa: B007
            pass
        return routed[-1] if coupling else routed[-1]._replace(coupling=None)

    def history(self, capsules: Capsules | RoutingOutput | Tensor) -> list[list[RoutingOutput]]:
        """For every pass, the parents of every layer from the bottom up, with their couplings."""
        return list(self._passes(capsules))

    def _passes(self, capsules: Capsules | RoutingOutput | Tensor) -> Iterator[list[RoutingOutput]]:
        capsules = as_capsules(capsules)
        routed: list[RoutingOutput] = []
        for layer in self.layers:
            routed.append(layer(routed[-1] if routed else capsules, coupling=True))
        yield routed
        for _ in range(self.iterations - 1):
            children = [capsules, *(parents.capsules for parents in routed[:-1])]
            routed = [
                _step(layer, below, parents.pose)
                for layer, below, parents in zip(self.layers, children, routed, strict=True)
            ]
            yield routed

    def extra_repr(self) -> str:
        """The number of passes, as `print(model)` shows it."""
        return f"iterations={self.iterations}"


def _step(layer: nn.Module, children: Capsules, parents: Tensor) -> RoutingOutput:
    assert isinstance(layer, CapsuleLayer)
    assert isinstance(layer.routing, InvertedAttentionRouting)
    votes = layer.votes(children)
    poses = parents.unsqueeze(1) if votes.grid is None else parents.flatten(1, 2)
    return _as_grid(layer.routing.step(votes, children.activation.flatten(1), poses), votes)
