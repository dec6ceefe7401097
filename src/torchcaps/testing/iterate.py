"""Laws on what a routing's `iterate` reads and yields: iterations, start, and places without a child."""

from __future__ import annotations

import inspect
from copy import copy, deepcopy
from typing import Any

import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer
from torchcaps.testing.forms import assert_close
from torchcaps.votes import Votes


def assert_iterations(layer: CapsuleLayer, capsules: Capsules) -> None:
    """`iterate` yields once for each of its `iterations`.

    Where `iterations` is an option of the routing, 1, 2 and 3 are tried. A routing without iterations has no
    such option: its `__init__` calls `super().__init__(parents, iterations=1)`.
    """
    twin = deepcopy(layer)
    is_option = "iterations" in inspect.signature(type(layer.routing).__init__).parameters
    for count in (1, 2, 3) if is_option else (layer.routing.iterations,):
        twin.routing.iterations = count
        found = len(twin.history(capsules))
        assert found == count, (
            f"{type(layer.routing).__name__}.iterate must yield once for each iteration, but it yielded "
            f"{found} times with iterations={count}. If it has a single one, leave the option out: write an "
            "__init__ that calls super().__init__(parents, iterations=1)"
        )


def assert_start_used(layer: CapsuleLayer, capsules: Capsules, *, atol: float = 1e-5) -> None:
    """Even shares as the start give the parents of no start, and another start gives others.

    The layer must have more than one parent. (In leaky routing no start is not an even one, as a child may
    also choose no parent; this law does not apply to it.)
    """
    votes, activation = layer.votes(capsules), capsules.activation.flatten(1)
    even, other = votes.uniform(), votes.softmax(3 * torch.randn_like(votes.uniform()))
    plain, same, changed = (
        layer.routing.history(votes, activation, start)[0].pose for start in (None, even, other)
    )
    assert_close(
        same, plain, atol, "even shares as the start must give the parents of no start", "poses differ"
    )
    assert float((changed - plain).detach().abs().max()) > atol, (
        "another start must give other parents, but the first poses are the same: iterate must begin with "
        "start where it is not None"
    )


def assert_padding_never_votes(layer: CapsuleLayer, capsules: Capsules, *, atol: float = 1e-5) -> None:
    """Places of a field that lie outside the image, where there is no child, change nothing.

    They are filled with large numbers in place of votes. A sum under couplings ignores them, as their
    couplings are 0; a median, a maximum or a count over children must leave them out, see `Votes.inside`.
    Only the plain form is tried: a fused kernel does not read votes.

    Args:
        layer: the layer; some of its fields must leave the image, as with `ConvCaps(..., padding=1)`.
        capsules: children that fit it.
        atol: largest difference that is accepted.

    Example:
        >>> from torchcaps import Capsules, ConvCaps
        >>> layer = ConvCaps(2, 3, kernel_size=3, padding=1, in_dim=4, routing="em")
        >>> assert_padding_never_votes(layer, Capsules(torch.randn(2, 4, 4, 2, 4), torch.rand(2, 4, 4, 2)))
    """
    votes = layer.votes(capsules)
    if votes.inside.all():
        raise ValueError(
            "no field of this layer leaves the image: take one with padding, as ConvCaps(padding=1)"
        )
    activation, start = capsules.activation.flatten(1), layer._start(votes, None)
    before, after = (layer.routing.history(each, activation, start) for each in (votes, _filled(votes)))
    should = "numbers outside the image, where there is no child, must change nothing (see votes.inside)"
    for number, (routed, other) in enumerate(zip(before, after), start=1):
        for what in ("pose", "activation", "coupling"):
            wanted, found = getattr(routed, what), getattr(other, what)
            assert_close(found, wanted, atol, should, f"at iteration {number} the {what} differs")


def _filled(votes: Votes) -> Votes:
    """The same votes with large numbers in the places outside the image."""
    kind: Any = type(votes)

    class Filled(kind):
        def compute(self, poses: Tensor) -> Tensor:
            found: Tensor = super().compute(poses)
            waves = torch.arange(found.numel(), device=found.device).view_as(found).cos().to(found.dtype)
            return torch.where(self.inside[..., None, None], found, 10 * (1 + found.abs().max()) * waves)

    filled = copy(votes)
    filled.__class__ = Filled
    filled._votes = filled._unfolded = None
    return filled
