from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_floating
from torchcaps.capsules import Capsules
from torchcaps.routing import Routing, RoutingOutput, create_routing, routing_options
from torchcaps.votes import Votes


class CapsuleLayer(nn.Module, ABC):
    """Children vote, a routing clusters: capsules in, capsules out. Geometry is left to subclasses.

    Args:
        routing: name of a routing, or a `Routing` object.
        parents: number of parent types.
        pose_size: numbers in a parent's pose.
        routing_options: for a routing given by name.
    """

    def __init__(
        self, routing: str | Routing, parents: int, pose_size: int, routing_options: dict[str, Any]
    ) -> None:
        super().__init__()
        self.routing = make_routing(routing, parents, pose_size, routing_options)
        self._watchers: list[Callable[[Capsules], None]] = []

    @abstractmethod
    def votes(self, capsules: Capsules) -> Votes:
        """The lazy votes of these children."""

    def forward(self, capsules: Capsules | Tensor) -> Capsules:
        """Parents of the given children."""
        routed = self.route(capsules, coupling=False)
        return Capsules(routed.pose, routed.activation)

    def route(self, capsules: Capsules | Tensor, *, coupling: bool = True) -> RoutingOutput:
        """Parents with the couplings that led to them; `coupling=False` may leave those out, to save time."""
        capsules = as_capsules(capsules)
        for watcher in self._watchers:
            watcher(capsules)
        votes = self.votes(capsules)
        return _lay_out(self.routing(votes, capsules.activation.flatten(1), coupling=coupling), votes)

    def watch(self, watcher: Callable[[Capsules], None]) -> Callable[[], None]:
        """Show `watcher` the children of every later call; the function returned ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def history(self, capsules: Capsules | Tensor) -> list[RoutingOutput]:
        """What `route` gives, after every iteration."""
        capsules = as_capsules(capsules)
        votes = self.votes(capsules)
        return [
            _lay_out(routed, votes) for routed in self.routing.history(votes, capsules.activation.flatten(1))
        ]


def as_capsules(capsules: Capsules | Tensor) -> Capsules:
    """Capsules as they are; a bare tensor as vector capsules, whose lengths are their activations."""
    if isinstance(capsules, Tensor):
        check_floating("pose", capsules, 3)
        return Capsules.from_vectors(capsules)
    if not isinstance(capsules, tuple) or len(capsules) != 2:
        raise ValueError(
            f"capsules must be Capsules(pose, activation) or a pose tensor, got {type(capsules).__name__}"
        )
    capsules = Capsules(*capsules)
    check_floating("pose", capsules.pose, 3)
    check_floating("activation", capsules.activation)
    if capsules.activation.shape != capsules.pose.shape[:-1]:
        raise ValueError(
            f"activation must have one number per pose {list(capsules.pose.shape[:-1])}, "
            f"got {list(capsules.activation.shape)}"
        )
    return capsules


def make_routing(routing: str | Routing, parents: int, pose_size: int, options: dict[str, Any]) -> Routing:
    """A routing for a layer with so many parent types and pose numbers."""
    if isinstance(routing, Routing):
        if options:
            raise ValueError(f"routing is an object already: set {', '.join(sorted(options))} when making it")
        return routing
    if not isinstance(routing, str):
        raise ValueError(f"routing must be a name or a Routing, got {type(routing).__name__}")
    known = {"parents": parents, "pose_size": pose_size}
    for name in known.keys() & options.keys():
        raise ValueError(f"{name} is the layer's to set, not an option of its routing")
    return create_routing(
        routing, **{k: v for k, v in known.items() if k in routing_options(routing)}, **options
    )


def initial_weight(
    children: tuple[int, ...], parents: int, size_in: int, size_out: int, *, matrix: bool
) -> Tensor:
    """Where the matrices start.

    Vector poses from N(0, 0.1²): from N(0, 1) a network does not train (pitfall 16). Matrix poses near the
    identity, so that a vote starts as the child's own pose.
    """
    shape = (*children, parents, size_in, size_out)
    if matrix:
        return torch.eye(size_in) + 0.1 * torch.randn(shape)
    return 0.1 * torch.randn(shape)


def _lay_out(routed: RoutingOutput, votes: Votes) -> RoutingOutput:
    """Positions P as the grid they make, or left out where there is only one."""

    def shape(values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        return values.squeeze(1) if votes.grid is None else values.unflatten(1, votes.grid)

    return RoutingOutput(*(shape(values) for values in routed))  # type: ignore[arg-type]
