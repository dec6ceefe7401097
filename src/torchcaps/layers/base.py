from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from torchcaps._checks import check_flag, check_floating
from torchcaps._compiling import Unscriptable, recording
from torchcaps.capsules import Capsules
from torchcaps.poses import PoseSpace
from torchcaps.routing import Routing, RoutingOutput, create_routing, routing_options
from torchcaps.votes import Votes


class CapsuleLayer(Unscriptable, nn.Module, ABC):
    """Children vote, a routing clusters the votes: capsules in, capsules out. Subclasses say who votes.

    Args:
        space: how a pose becomes a vote.
        rows: leading dimensions of the weight, such as `(N,)` for N children; empty if all children share it.
        parents: number of parent types, J.
        routing: name of a routing, or a `Routing` object.
        learn_prior: learn which parents each child prefers before any agreement: `log_prior` `[*rows, J]`,
            the logits of the first assignment. They start at 0, even shares.
        routing_options: for a routing given by name.
    """

    # Whether it was said that parents have a single child.
    _noticed = False

    def __init__(
        self,
        space: PoseSpace,
        rows: tuple[int, ...],
        parents: int,
        *,
        routing: str | Routing,
        learn_prior: bool = False,
        routing_options: dict[str, Any],
    ) -> None:
        super().__init__()
        self.space = space
        sizes = {"parents": parents, "pose_dim": space.out_dim, "in_dim": space.in_dim, "rows": rows}
        self.routing = make_routing(routing, sizes, routing_options)
        self.weight = nn.Parameter(space.initial_weight(*rows, parents))
        self.log_prior: nn.Parameter | None = None
        if check_flag("learn_prior", learn_prior):
            self.log_prior = nn.Parameter(torch.zeros(*rows, parents))

    @abstractmethod
    def votes(self, capsules: Capsules) -> Votes:
        """The lazy votes of these children."""

    def forward(
        self,
        capsules: Capsules | RoutingOutput | Tensor,
        *,
        start: Tensor | None = None,
        coupling: bool = False,
    ) -> RoutingOutput:
        """Parents of the given children.

        Args:
            capsules: the children; the output of another layer, or a tensor of vectors, will do.
            start: the assignment to start from, in the shape of the couplings; over all parents of a child
                it adds up to 1. By default even shares, or the learned prior.
            coupling: whether to return the couplings as well; without them a fused kernel can be used.
        """
        capsules = as_capsules(capsules)
        votes = self.votes(capsules)
        self._notice_single_child(votes)
        routed = self.routing(
            votes, capsules.activation.flatten(1), self._start(votes, start), coupling=coupling
        )
        return _as_grid(routed, votes)

    def history(
        self, capsules: Capsules | RoutingOutput | Tensor, *, start: Tensor | None = None
    ) -> list[RoutingOutput]:
        """What `forward` returns, with couplings, after every iteration."""
        capsules = as_capsules(capsules)
        votes = self.votes(capsules)
        self._notice_single_child(votes)
        activation = capsules.activation.flatten(1)
        return [
            _as_grid(routed, votes)
            for routed in self.routing.history(votes, activation, self._start(votes, start))
        ]

    def _notice_single_child(self, votes: Votes) -> None:
        """Warn once if each parent has one child: a vote that is alone agrees with nothing."""
        if self._noticed or recording() or votes.children != 1:
            return
        self._noticed = True
        warnings.warn(
            f"{type(self).__name__}({self.extra_repr()}) has one child per parent: routing looks for votes "
            "that agree, and here each parent gets a single one. Give the layer more children: larger "
            "images, fewer strides and poolings before it, or more capsule types",
            stacklevel=2,
        )

    def _start(self, votes: Votes, start: Tensor | None) -> Tensor | None:
        if start is not None:
            positions = (1, 2) if votes.grid else ()
            return start.flatten(*positions) if positions else start.unsqueeze(1)
        if self.log_prior is None:
            return None
        logits = votes.expand_rows(self.log_prior.to(votes.pose.dtype))
        return votes.softmax(logits.expand(votes.batch, -1, -1, -1))

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return f"weight={list(self.weight.shape)}, pose={self.space!r}"


def as_capsules(capsules: Capsules | RoutingOutput | Tensor) -> Capsules:
    """Pose and activation of capsules; a bare tensor holds vectors, whose lengths are their activations."""
    if isinstance(capsules, Tensor):
        check_floating("pose", capsules, 3)
        return Capsules.from_vectors(capsules)
    if isinstance(capsules, RoutingOutput):
        return capsules.capsules
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


def make_routing(routing: str | Routing, sizes: dict[str, Any], options: dict[str, Any]) -> Routing:
    """The routing of a layer: by name it gets those sizes of the layer that it has options for.

    Args:
        routing: a name, or a `Routing`.
        sizes: `parents` J, `pose_dim` D_out, `in_dim` D_in, and `rows`, the leading dimensions of the weight.
        options: for a routing given by name.
    """
    if isinstance(routing, Routing):
        if options:
            names = ", ".join(sorted(options))
            raise ValueError(f"routing is already an object: set {names} when you create it")
        return routing
    if not isinstance(routing, str):
        raise ValueError(f"routing must be a name or a Routing, got {type(routing).__name__}")
    for name in sizes.keys() & options.keys():
        raise ValueError(f"{name} is set by the layer and is not an option of its routing")
    return create_routing(
        routing, **{k: v for k, v in sizes.items() if k in routing_options(routing)}, **options
    )


def _as_grid(routed: RoutingOutput, votes: Votes) -> RoutingOutput:
    """Positions P as their grid, or left out if there is only one."""

    def shape(values: Tensor) -> Tensor:
        return values.squeeze(1) if votes.grid is None else values.unflatten(1, votes.grid)

    pose, activation, logits, coupling = routed
    return RoutingOutput(
        shape(pose), shape(activation), shape(logits), None if coupling is None else shape(coupling)
    )
