from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchcaps.checks import check_count, check_tensor
from torchcaps.votes import Votes, at_least_float32, stored, weighted_sum


def dead(dtype: torch.dtype) -> float:
    r"""The mass below which a parent counts as having no votes.

    Two limits of the type decide it. The slope of a mean with respect to a weight is (vote - mean) / mass:
    with a mass of at least 1e-20, 1 / mass is at most 1e20, and float32, which ends at 3e38, leaves 1e18 for
    the other factor. And a weight below 1e-38 is 0 in float32: beside a mass of at least 1e-20, what is lost
    is less than 1e-18 of it per child, far below rounding. So 1e-20 lies in the middle of the exponents of
    float32; 1e-200 leaves float64 as much above, and far more than it needs.

    >>> dead(torch.float32), dead(torch.float64)
    (1e-20, 1e-200)
    """
    return 1e-20 if dtype == torch.float32 else 1e-200


class Routed(NamedTuple):
    """What a routing found at one iteration.

    At P positions with J parent types, from I children in each field; a layer gives the same without P,
    or with the grid `H', W'` in its place.

    Attributes:
        pose: `[B, P, J, D]`.
        activation: `[B, P, J]`, from 0 to 1.
        coupling: `[B, P, I, J]`, the share of each child that each parent was given; over all parents of a
            child it adds up to 1. `None` where a fused kernel was asked for capsules only.
        logit: `[B, P, J]`, the activation before it was pressed into 0..1: what cross-entropy wants.
    """

    pose: Tensor
    activation: Tensor
    coupling: Tensor | None
    logit: Tensor


class Routing(nn.Module, ABC):
    """A clustering of votes, written as a generator over its iterations.

    A new algorithm is a subclass with an `iterate`; every layer and geometry can then use it.

    Args:
        parents: number of parent types; what a routing learns, it learns per type. With 1, all types
            share it, so a routing made without knowing the layer still fits every layer.
        iterations: how many times parents are computed.
    """

    def __init__(self, parents: int = 1, *, iterations: int = 3) -> None:
        super().__init__()
        self.parents = check_count("parents", parents)
        self.iterations = check_count("iterations", iterations)

    @abstractmethod
    def iterate(self, votes: Votes, activation: Tensor, start: Tensor | None = None) -> Iterator[Routed]:
        """Yield what is known after each iteration.

        Args:
            votes: the votes of the children, lazy.
            activation: of the children, `[B, N]`.
            start: the assignment to begin with, `[B, P, I, J]`; by default each child is shared evenly
                among its parents.
        """

    def forward(
        self, votes: Votes, activation: Tensor, start: Tensor | None = None, *, coupling: bool = True
    ) -> Routed:
        """Route to the end and give the last iteration.

        Args:
            votes: see `iterate`.
            activation: see `iterate`.
            start: see `iterate`.
            coupling: whether the caller looks at the couplings; a fused kernel may leave them out if not.
        """
        self._check(votes, activation, start)
        # Autocast would round every weighted sum to half precision, and rounding errors feed back here.
        with without_autocast(votes.pose):
            if start is None and not coupling:
                fused = self.fused(votes, at_least_float32(activation))
                if fused is not None:
                    return fused
            for routed in self.iterate(votes, at_least_float32(activation), start):  # noqa: B007
                pass
        return routed

    def fused(self, votes: Votes, activation: Tensor) -> Routed | None:
        """The last iteration by a kernel, without couplings; `None` where no kernel fits."""
        return None

    def trace(self, votes: Votes, activation: Tensor, start: Tensor | None = None) -> list[Routed]:
        """All iterations, first to last, from the same code that trains."""
        self._check(votes, activation, start)
        with without_autocast(votes.pose):
            return list(self.iterate(votes, at_least_float32(activation), start))

    def extra_repr(self) -> str:
        """The options, as `print(model)` shows them."""
        return f"parents={self.parents}, iterations={self.iterations}"

    def _check(self, votes: Votes, activation: Tensor, start: Tensor | None) -> None:
        if not isinstance(votes, Votes):
            raise ValueError(f"votes must be Votes, such as DenseVotes, got {type(votes).__name__}")
        check_tensor("activation", activation, "B N", B=votes.batch, N=votes.total_children)
        sizes = {"B": votes.batch, "P": votes.positions, "I": votes.children, "J": votes.parents}
        if start is not None:
            check_tensor("start", start, "B P I J", **sizes)
        for name, given in [("activation", activation), ("start", start)]:
            if given is not None and at_least_float32(given).dtype != votes.pose.dtype:
                raise ValueError(f"{name} must be {votes.pose.dtype} as the poses are, got {given.dtype}")
        if self.parents not in (1, votes.parents):
            raise ValueError(f"routing was made for parents={self.parents}, the layer has {votes.parents}")


def without_autocast(values: Tensor) -> AbstractContextManager[object]:
    """Leave autocast, on devices that have it."""
    device = values.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def weighted_mean(votes: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean vote of each parent, under weights that need not add up to anything.

    Returns the mean `[B, P, J, D]` (0 for a parent that nobody votes for), the mass `[B, P, J]`, and the
    weights as shares of that mass `[B, P, I, J]`.
    """
    mean, _, mass, share = precise_mean(votes, weight)
    return mean, mass, share


def precise_mean(votes: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""`weighted_mean`, and the digits of the mean that its type has no room for.

    Returns the mean, its low part `[B, P, J, D]`, the mass and the shares. `votes - mean - low` keeps the
    digits of the deviations where `votes - mean` does not: the mean is rounded to the last digit of a vote,
    which is no small error beside the difference of two votes that nearly agree. The low part is a constant
    for gradients.

    Gradients need the same care. As shares add up to 1, the mean is also :math:`c + \sum_i s_i (V_i - c)` for
    any constant c. With the mean itself for c, the slope with respect to a share is the deviation
    :math:`V_i - c`, where the plain sum has :math:`V_i`: what all votes have in common cancels exactly, not
    after it was rounded.
    """
    mass = weight.sum(2)
    alive = mass > dead(mass.dtype)
    share = stored(torch.where(alive.unsqueeze(2), weight, 0.0) / torch.where(alive, mass, 1.0).unsqueeze(2))
    center = stored(weighted_sum(votes, share).detach())
    shift = weighted_sum(votes - center.unsqueeze(2), share)
    mean = center + shift
    # The rest of the sum that was rounded to `mean`, exactly.
    low = (shift - (mean - center)).detach()
    return mean, low, mass, share


def length_logit(activation: Tensor) -> Tensor:
    """The logit of an activation that is a length, kept finite at 0 and 1."""
    return torch.logit(activation, eps=1e-6)
