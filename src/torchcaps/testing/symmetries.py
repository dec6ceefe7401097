"""Laws on what changes nothing: the batch, the order of children, the viewpoint; and on couplings."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer
from torchcaps.testing.forms import assert_close, forms


def assert_couplings_normalized(layer: CapsuleLayer, capsules: Capsules, *, atol: float = 1e-5) -> None:
    """At every iteration the couplings of each child that has a parent add up to 1.

    The sum is over all parents of the child, at all positions. (In leaky routing a child may also choose no
    parent; this law does not apply to it.)
    """
    votes = layer.votes(capsules)
    activation, start = capsules.activation.flatten(1), layer._start(votes, None)
    for number, routed in enumerate(layer.routing.history(votes, activation, start), start=1):
        assert routed.coupling is not None
        coupling = routed.coupling.detach()
        least = float(coupling.min())
        assert least >= 0, f"couplings must not be negative, but one is {least:.3g} at iteration {number}"
        shares = coupling.sum(-1)
        if votes.index is None:
            totals, has_parent = shares[:, 0], votes.inside[0]
        else:
            slots = shares.new_zeros(votes.batch, votes.total_children + 1)
            totals = slots.index_add(1, votes.index.flatten(), shares.flatten(1))[:, :-1]
            has_parent = torch.bincount(votes.index.flatten(), minlength=slots.shape[1])[:-1] > 0
            outside = float(coupling[:, ~votes.inside].abs().amax()) if not votes.inside.all() else 0.0
            assert outside == 0, (
                "couplings of places outside the image must be 0, as votes.softmax, votes.hard and "
                f"votes.uniform make them, but one is {outside:.3g} at iteration {number}"
            )
        wanted = has_parent.to(totals).expand_as(totals)
        far = totals.flatten()[(totals - wanted).abs().argmax()]
        should = (
            "the couplings of a child must add up to 1 over all its parents, those at other positions too"
        )
        assert_close(totals, wanted, atol, should, f"at iteration {number} those of one add up to {far:.4g}")


def assert_batch_independent(layer: CapsuleLayer, capsules: Capsules, *, atol: float = 1e-5) -> None:
    """Samples are independent: each row of a batch equals the same row alone."""
    should = "a sample must give the same parents alone and in a batch"
    for form in forms(layer, capsules).values():
        together = form(layer, capsules)
        for row in range(capsules.pose.shape[0]):
            one = slice(row, row + 1)
            alone = form(layer, Capsules(capsules.pose[one], capsules.activation[one]))
            for what in ("pose", "activation"):
                found, wanted = getattr(alone, what), getattr(together, what)[one]
                assert_close(found, wanted, atol, should, f"the {what} of sample {row} differs")


def assert_child_permutation(
    layer: CapsuleLayer,
    capsules: Capsules,
    *,
    permute_weight: Callable[[Tensor, Tensor], Tensor] | None = None,
    atol: float = 1e-5,
) -> None:
    """Children in another order, with their weights, give the same parents, and the couplings in that order.

    On a grid the types at each position are permuted, elsewhere all children.

    Args:
        layer: the layer.
        capsules: children that fit it.
        permute_weight: `(weight, order) -> weight` in the new order; needed for layers of your own whose
            weight does not begin with children (or with positions and types, type fastest).
        atol: largest difference that is accepted.
    """
    order = torch.randperm(capsules.pose.shape[-2])
    moved = Capsules(capsules.pose[..., order, :], capsules.activation[..., order])
    twin = deepcopy(layer)
    with torch.no_grad():
        for name in ("weight", "log_prior"):
            parameter = getattr(layer, name, None)
            if parameter is not None and layer.votes(capsules).row_dims:
                getattr(twin, name).copy_((permute_weight or _permute_children)(parameter, order))
    should = "children in another order, with their weights, must give the same parents"
    for form in forms(layer, capsules).values():
        before, after = form(layer, capsules), form(twin, moved)
        assert_close(after.pose, before.pose, atol, should, "poses differ")
        assert_close(after.activation, before.activation, atol, should, "activations differ")
        if before.coupling is not None and after.coupling is not None:
            by_type = before.coupling.unflatten(-2, (-1, len(order)))
            wanted = by_type[..., order, :].flatten(-3, -2)
            assert_close(after.coupling, wanted, atol, should, "couplings differ")


def assert_viewpoint_equivariant(
    layer: CapsuleLayer, capsules: Capsules, *, transform: Tensor | None = None, atol: float = 1e-5
) -> None:
    """A change of viewpoint of all children moves the parents in the same way and changes nothing else.

    Couplings and activations stay, and the poses of the parents are those before, moved. Whether this holds
    depends on routing, pose space and kind of transform: docs/viewpoint.md has the table. Coordinate addition
    breaks it, as positions do not move.

    Args:
        layer: the layer; its pose space must say how poses move (`PoseSpace.move`).
        capsules: children that fit it.
        transform: the change of viewpoint; by default a random one of the widest kind that the space has.
        atol: largest difference of couplings and activations, and largest distance of poses, that is
            accepted.

    Example:
        >>> from torchcaps import Capsules, DenseCaps
        >>> options = {"routing": "em", "covariance": "rows", "activation": "mixing"}
        >>> layer = DenseCaps(20, 16, 3, 16, pose="matrix", **options)
        >>> children = Capsules(torch.randn(2, 20, 16), torch.rand(2, 20))
        >>> assert_viewpoint_equivariant(layer, children, atol=1e-3)
    """
    space = layer.space
    if not isinstance(capsules, Capsules):
        raise ValueError(
            f"capsules must be Capsules of a pose and an activation, got {type(capsules).__name__}"
        )
    needed = space.random_transform()
    if transform is None:
        transform = needed
    elif not isinstance(transform, Tensor) or transform.shape != needed.shape:
        got = list(transform.shape) if isinstance(transform, Tensor) else repr(transform)
        raise ValueError(f"transform must be a tensor of shape {list(needed.shape)} for {space!r}, got {got}")
    moved = Capsules(space.move(capsules.pose, transform), capsules.activation)
    should = "a change of viewpoint must move the poses of parents alike and change nothing else"
    for form in forms(layer, capsules).values():
        before, after = form(layer, capsules), form(layer, moved)
        if before.coupling is not None and after.coupling is not None:
            assert_close(after.coupling, before.coupling, atol, should, "couplings differ")
        assert_close(after.activation, before.activation, atol, should, "activations differ")
        # Not number by number: two poses that are stored differently may be the same rotation.
        distance = space.distance(after.pose, space.move(before.pose, transform)).sqrt()
        assert_close(distance, torch.zeros_like(distance), atol, should, "poses differ from the moved ones")


def _permute_children(weight: Tensor, order: Tensor) -> Tensor:
    return weight.unflatten(0, (-1, len(order)))[:, order].flatten(0, 1)
