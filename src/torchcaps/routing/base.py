from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_tensor
from torchcaps._compiling import exporting, realize, recording
from torchcaps._pytrees import serializable
from torchcaps.capsules import Capsules
from torchcaps.poses import PoseSpace
from torchcaps.votes import Votes, at_least_float32, weighted_sum


def min_mass(dtype: torch.dtype) -> float:
    r"""The mass below which a parent counts as having no votes.

    Two limits of the type decide it. The slope of a mean with respect to a weight is (vote - mean) / mass:
    with a mass of at least 1e-20, 1 / mass is at most 1e20, and float32, which ends at 3e38, leaves 1e18 for
    the other factor. And a weight below 1e-38 is 0 in float32: beside a mass of at least 1e-20, what is lost
    is less than 1e-18 of it per child, far below rounding. So 1e-20 is in the middle of the exponents of
    float32; 1e-200 leaves float64 as much above, and far more than it needs.

    >>> min_mass(torch.float32), min_mass(torch.float64)
    (1e-20, 1e-200)
    """
    return 1e-20 if dtype == torch.float32 else 1e-200


@serializable
class RoutingOutput(NamedTuple):
    """The parents after one iteration of routing: what a routing and a capsule layer return.

    Shapes are for P positions with J parent types and I children in each field. A layer returns the same
    without P, or with the grid `H', W'` in its place.

    Attributes:
        pose: `[B, P, J, D]`.
        activation: `[B, P, J]`, from 0 to 1.
        logits: `[B, P, J]`, the activation before the sigmoid, as cross-entropy takes it.
        coupling: `[B, P, I, J]`, the share of each child that each parent gets; over all parents of a child
            it adds up to 1. `None` unless it was asked for.
    """

    pose: Tensor
    activation: Tensor
    logits: Tensor
    coupling: Tensor | None = None

    @property
    def capsules(self) -> Capsules:
        """Pose and activation, as the next layer takes them."""
        return Capsules(self.pose, self.activation)


class Routing(nn.Module, ABC):
    """A clustering of votes, written as a generator over its iterations.

    A new algorithm is a subclass with an `iterate`. Registered with `register_routing`, every layer and
    recipe can use it by name.

    Args:
        parents: number of parent types; parameters of a routing are per type. With 1 they are shared by all
            types, so that a routing object fits every layer.
        iterations: how many times parents are computed.
    """

    uses_activation: ClassVar[bool] = True
    """Whether the activations of the children matter, beside their poses.

    If so, the primary capsules of `capsule_head`, `vb_capsnet` and `self_routing_resnet20` have a convolution
    for them; if not, the length of a squashed pose is the activation.
    """
    has_lengths: ClassVar[bool] = False
    """Whether the activation of a parent is the length of a squashed vector.

    The margin loss is made for such activations. Where a recipe names no loss, a model that is registered
    with the margin loss is trained with it if this is true, and with cross-entropy if not.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse an `iterate` that cannot be called as layers call it, where it is written."""
        super().__init_subclass__(**options)
        own = cls.__dict__.get("iterate")
        if not inspect.isfunction(own):
            return
        try:
            inspect.signature(own).bind("self", "votes", "activation", "start")
        except TypeError as fault:
            taken = ", ".join(inspect.signature(own).parameters)
            raise TypeError(
                f"{cls.__name__}.iterate({taken}) cannot be called with votes, activation and start "
                f"({fault}): write iterate(self, votes, activation, start=None)"
            ) from None

    def __init__(self, parents: int = 1, *, iterations: int = 3) -> None:
        super().__init__()
        self.parents = check_count("parents", parents)
        self.iterations = check_count("iterations", iterations)

    @abstractmethod
    def iterate(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None
    ) -> Iterator[RoutingOutput]:
        """Yield the parents after each iteration.

        Args:
            votes: the votes of the children, lazy.
            activation: of the children, `[B, N]`.
            start: the assignment to start from, `[B, P, I, J]`; by default even shares over the parents of
                each child.
        """

    def forward(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None, *, coupling: bool = False
    ) -> RoutingOutput:
        """The parents after the last iteration.

        Args:
            votes: see `iterate`.
            activation: see `iterate`.
            start: see `iterate`.
            coupling: whether to return the couplings; a fused kernel, which has none, is used if not.
        """
        self._check(votes, activation, start)
        # Autocast would round every weighted sum to half precision, and rounding errors feed back here.
        with without_autocast(votes.pose):
            if start is None and not coupling:
                fused = self.fused(votes, at_least_float32(activation))
                if fused is not None:
                    return fused
            routed: RoutingOutput | None = None
            for routed in self._iterations(votes, activation, start):  # noqa: B007
                pass
        if not recording():
            check_parents(self, routed, votes, coupling=coupling)
        assert routed is not None
        return routed if coupling else routed._replace(coupling=None)

    def fused(self, votes: Votes, activation: Tensor) -> RoutingOutput | None:
        """The last iteration by a fused kernel, without couplings; `None` where no kernel fits."""
        return None

    def history(self, votes: Votes, activation: Tensor, start: Tensor | None = None) -> list[RoutingOutput]:
        """All iterations, first to last, with their couplings."""
        self._check(votes, activation, start)
        with without_autocast(votes.pose):
            routed = list(self._iterations(votes, activation, start))
        if not routed:
            check_parents(self, None, votes, coupling=True)
        for each in routed:
            check_parents(self, each, votes, coupling=True)
        return routed

    def _iterations(self, votes: Votes, activation: Tensor, start: Tensor | None) -> Iterable[RoutingOutput]:
        """What `iterate` returns, checked to be something that yields."""
        steps = self.iterate(votes, at_least_float32(activation), start)
        if not recording() and (isinstance(steps, (tuple, Tensor)) or not hasattr(steps, "__iter__")):
            raise ValueError(
                f"{type(self).__name__}.iterate returned {_kind(steps)}, but it must yield a RoutingOutput "
                "after each iteration: write yield in place of return"
            )
        return steps

    def supports(self, space: PoseSpace) -> bool:
        """Whether it can cluster poses of this space; by default, poses that can be added."""
        return space.linear

    def extra_repr(self) -> str:
        """The options, as `print(model)` shows them."""
        return f"parents={self.parents}, iterations={self.iterations}"

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        if not isinstance(votes, Votes):
            raise ValueError(
                f"votes must be an instance of Votes, such as DenseVotes, got {type(votes).__name__}"
            )
        if not self.supports(votes.space):
            raise ValueError(
                f"{type(self).__name__} with these options adds poses, and {votes.space!r} has poses that "
                "cannot be added; use another routing or another pose space"
            )
        check_tensor("activation", activation, "B N", B=votes.batch, N=votes.total_children)
        sizes = {"B": votes.batch, "P": votes.positions, "I": votes.children, "J": votes.parents}
        if start is not None:
            check_tensor("start", start, "B P I J", **sizes)
        for name, given in [("activation", activation), ("start", start)]:
            if given is not None and at_least_float32(given).dtype != votes.pose.dtype:
                raise ValueError(f"{name} must be {votes.pose.dtype} as the poses are, got {given.dtype}")
        if self.parents not in (1, votes.parents):
            raise ValueError(
                f"the routing was built for parents={self.parents}, the layer has {votes.parents}"
            )


def check_parents(routing: Routing, routed: object, votes: Votes, *, coupling: bool) -> None:
    """Raise a sentence if an own `iterate` yielded something else than the parents of these votes.

    Only types and shapes are compared, so it costs nothing beside one iteration.

    Args:
        routing: whose `iterate` it was.
        routed: what it yielded; `None` if it yielded nothing.
        votes: what it was given.
        coupling: whether couplings are needed.
    """
    name = f"{type(routing).__name__}.iterate"
    if routed is None:
        raise ValueError(
            f"{name} yielded nothing: it must yield a RoutingOutput after each of its "
            f"{routing.iterations} iterations"
        )
    if not isinstance(routed, RoutingOutput):
        raise ValueError(
            f"{name} yielded {_kind(routed)}, expected RoutingOutput(pose, activation, logits, coupling)"
        )
    size = (votes.batch, votes.positions, votes.parents)
    expected = {
        "pose": ("[B, P, J, D]", (*size, votes.pose_dim)),
        "activation": ("[B, P, J]", size),
        "logits": ("[B, P, J]", size),
        "coupling": ("[B, P, I, J]", (*size[:2], votes.children, votes.parents)),
    }
    for part, (letters, shape) in expected.items():
        values = getattr(routed, part)
        if part == "coupling" and values is None:
            if coupling:
                raise ValueError(
                    f"{name} yielded no coupling, which was asked for: give RoutingOutput its fourth value, "
                    f"{letters} = {list(shape)}"
                )
        elif not isinstance(values, Tensor):
            raise ValueError(f"{name} yielded {_kind(values)} as {part}, expected a tensor {letters}")
        elif tuple(values.shape) != shape:
            raise ValueError(
                f"{name} yielded {part} {list(values.shape)}, expected {letters} = {list(shape)}"
            )


def _kind(value: object) -> str:
    """What a value is, for a message.

    >>> _kind(None), _kind((1, 2)), _kind(torch.zeros(2))
    ('None', 'a tuple', 'a Tensor')
    """
    return "None" if value is None else f"a {type(value).__name__}"


def without_autocast(values: Tensor) -> AbstractContextManager[object]:
    """Leave autocast, on devices that have it."""
    device = values.device.type
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    if exporting() and not torch.is_autocast_enabled(device):
        return nullcontext()  # an exported graph would hold a nested graph for the context
    return torch.autocast(device, enabled=False)


def weighted_mean(
    votes: Tensor, weight: Tensor, limits: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean vote of each parent, under weights that need not add up to anything.

    Returns the mean `[B, P, J, D]` (0 for a parent that nobody votes for), the mass `[B, P, J]`, and the
    weights as shares of that mass `[B, P, I, J]`. `limits` is as in `precise_mean`.
    """
    mean, _, mass, share = precise_mean(votes, weight, limits)
    return mean, mass, share


def mean_pose(
    space: PoseSpace, votes: Tensor, weight: Tensor, limits: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`weighted_mean` by the mean of the pose space, for poses that cannot be added."""
    mass, share = mass_and_shares(weight, limits)
    return space.mean(votes, share), mass, share


def precise_mean(
    votes: Tensor, weight: Tensor, limits: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""`weighted_mean`, and the digits of the mean that its type has no room for.

    Returns the mean, its low part `[B, P, J, D]`, the mass and the shares. `votes - mean - low` keeps the
    digits of the deviations where `votes - mean` does not: the mean is rounded to the last digit of a vote,
    which is no small error beside the difference of two votes that nearly agree. The low part is a constant
    for gradients.

    Gradients need the same care. As shares add up to 1, the mean is also :math:`c + \sum_i s_i (V_i - c)` for
    any constant c. With the mean itself for c, the slope with respect to a share is the deviation
    :math:`V_i - c`, where the plain sum has :math:`V_i`: what all votes have in common cancels exactly, not
    after it was rounded.

    `limits` is the type whose `min_mass` counts, by default that of the weights.
    """
    mass, share = mass_and_shares(weight, limits)
    center = realize(weighted_sum(votes, share).detach())
    shift = weighted_sum(votes - center.unsqueeze(2), share)
    mean = center + shift
    # The rest of the sum that was rounded to `mean`, exactly.
    low = (shift - (mean - center)).detach()
    return mean, low, mass, share


def mass_and_shares(weight: Tensor, limits: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """The mass of each parent, and the weights as shares of it: 0 where nobody votes."""
    mass = weight.sum(2)
    alive = mass > min_mass(limits or mass.dtype)
    share = torch.where(alive.unsqueeze(2), weight, 0.0) / torch.where(alive, mass, 1.0).unsqueeze(2)
    return mass, realize(even_gradient(share, 2))


def even_gradient(share: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    r"""Shares that add up to 1 over `dim`, with better gradients.

    This adds 0. The backward pass of a quotient :math:`s_i = w_i / \sum_k w_k` subtracts from the gradients
    :math:`G_i` their mean :math:`\sum_k s_k G_k`, after it has divided both by the sum: what all have in
    common cancels after it was rounded, and beside a small sum the rounding is all that is left. Here the
    mean is subtracted first; the second mean is near 0. For a single share nothing is left at all.
    Weights that were divided by a limit instead of their sum do not add up to 1 and stay as they are.
    """
    total = share.sum(dim, keepdim=True)
    divided = (total > 0.99).detach()
    return share + torch.where(divided, share.detach(), 0.0) * (total.detach() - total)


def length_logit(activation: Tensor) -> Tensor:
    """The logits of activations that are lengths, finite at 0 and 1."""
    return torch.logit(activation, eps=1e-6)
