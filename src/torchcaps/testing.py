"""Laws that every capsule layer keeps, as assertions for your own layers and routings too.

Each takes a `CapsuleLayer` and `Capsules` that fit it, and raises `AssertionError` with what broke.

Example:
    >>> from torchcaps import Capsules, DenseCaps
    >>> layer, children = DenseCaps(6, 8, 3, 4), Capsules.from_vectors(torch.randn(2, 6, 8))
    >>> assert_couplings_normalized(layer, children)
    >>> assert_batch_independent(layer, children)
    >>> assert_child_permutation(layer, children)
    >>> assert_finite_everywhere(layer, children)
    >>> assert_gradcheck(layer, children)
    >>> assert_gradient_accurate(layer, children)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor

from torchcaps.capsules import Capsules, length
from torchcaps.layers import CapsuleLayer
from torchcaps.routing import RoutingOutput


def _plain(layer: CapsuleLayer, capsules: Capsules) -> RoutingOutput:
    output: RoutingOutput = layer(capsules, coupling=True)
    return output


def _fused(layer: CapsuleLayer, capsules: Capsules) -> RoutingOutput:
    output: RoutingOutput = layer(capsules)
    return output


Form = Callable[[CapsuleLayer, Capsules], RoutingOutput]


def _forms(layer: CapsuleLayer, capsules: Capsules) -> dict[str, Form]:
    """The forms that this layer has; without couplings it may use a fused kernel. The laws hold for both."""
    forms: dict[str, Form] = {"plain": _plain}
    with torch.no_grad():
        votes = layer.votes(capsules)
        start = layer._start(votes, None)
        if start is None and layer.routing.fused(votes, capsules.activation.flatten(1)) is not None:
            forms["fused"] = _fused
    return forms


def assert_couplings_normalized(layer: CapsuleLayer, capsules: Capsules, *, atol: float = 1e-5) -> None:
    """At every iteration the couplings of each child that has a parent add up to 1.

    The sum is over all parents of the child, at all positions. (In leaky routing a child may also choose no
    parent; this law does not apply to it.)
    """
    votes = layer.votes(capsules)
    activation, start = capsules.activation.flatten(1), layer._start(votes, None)
    for number, routed in enumerate(layer.routing.history(votes, activation, start), start=1):
        coupling = routed.coupling
        assert coupling is not None
        assert bool((coupling >= 0).all()), f"a coupling is negative at iteration {number}"
        shares = coupling.sum(-1)
        if votes.index is None:
            totals, has_parent = shares[:, 0], torch.ones(votes.total_children, dtype=torch.bool)
        else:
            slots = shares.new_zeros(votes.batch, votes.total_children + 1)
            totals = slots.index_add(1, votes.index.flatten(), shares.flatten(1))[:, :-1]
            has_parent = torch.bincount(votes.index.flatten(), minlength=slots.shape[1])[:-1] > 0
            outside = shares[:, votes.index == votes.total_children]
            assert bool((outside == 0).all()), f"a coupling outside the image is not 0 at iteration {number}"
        wanted = has_parent.to(totals).expand_as(totals)
        _assert_close(totals, wanted, atol, f"couplings of a child add up to 1 at iteration {number}")


def assert_batch_independent(layer: CapsuleLayer, capsules: Capsules, *, atol: float = 1e-5) -> None:
    """Samples are independent: each row of a batch equals the same row alone."""
    for form in _forms(layer, capsules).values():
        together = form(layer, capsules)
        for row in range(capsules.pose.shape[0]):
            one = slice(row, row + 1)
            alone = form(layer, Capsules(capsules.pose[one], capsules.activation[one]))
            _assert_close(alone.pose, together.pose[one], atol, f"pose of sample {row} alone")
            _assert_close(
                alone.activation, together.activation[one], atol, f"activation of sample {row} alone"
            )


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
    for form in _forms(layer, capsules).values():
        before, after = form(layer, capsules), form(twin, moved)
        _assert_close(after.pose, before.pose, atol, "poses after permuting children")
        _assert_close(after.activation, before.activation, atol, "activations after permuting children")
        if before.coupling is not None and after.coupling is not None:
            by_type = before.coupling.unflatten(-2, (-1, len(order)))
            _assert_close(
                after.coupling, by_type[..., order, :].flatten(-3, -2), atol, "couplings of permuted children"
            )


def assert_finite_everywhere(layer: CapsuleLayer, capsules: Capsules) -> None:
    """Outputs and gradients are finite for any finite input, in float32 and under bfloat16 autocast.

    Tries poses of zeros, 1e15, 1e-15 and a mixture of scales, all children dead, all but one dead, and all
    alike; `capsules` gives the shape.
    """
    layer = deepcopy(layer).float()
    extremes = _extremes(capsules)
    forms = _forms(layer, next(iter(extremes.values()))).values()
    for name, case in extremes.items():
        for autocast, form in product((False, True), forms):
            pose = case.pose.clone().requires_grad_()
            activation = case.activation.clone().requires_grad_()
            with torch.autocast(pose.device.type, torch.bfloat16, enabled=autocast):
                parents = form(layer, Capsules(pose, activation))
            where = f"with {name}{' under autocast' if autocast else ''}"
            _assert_finite(parents.pose, f"pose {where}")
            _assert_finite(parents.activation, f"activation {where}")
            _assert_finite(parents.logits, f"logit {where}")
            layer.zero_grad()
            # Lengths beside raw poses: their slope at 0 is where NaN hides.
            lengths = length(parents.pose)
            (parents.activation.sum() + parents.logits.sum() + parents.pose.sum() + lengths.sum()).backward()
            for what, grad in [("pose", pose.grad), ("activation", activation.grad)]:
                if grad is not None:
                    _assert_finite(grad, f"gradient of the {what} {where}")
            for what, parameter in layer.named_parameters():
                if parameter.grad is not None:
                    _assert_finite(parameter.grad, f"gradient of {what} {where}")


def assert_gradcheck(layer: CapsuleLayer, capsules: Capsules, **options: Any) -> None:
    """Analytic gradients equal finite differences in float64, for poses, activations and all parameters."""
    layer = deepcopy(layer).double()
    names = [name for name, _ in layer.named_parameters()]
    parameters = tuple(p.detach().clone().requires_grad_() for p in layer.parameters())

    def run(pose: Tensor, activation: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        children = Capsules(pose, activation)
        return torch.func.functional_call(layer, dict(zip(names, values)), (children,))[:3]

    pose = capsules.pose.detach().double().requires_grad_()
    activation = capsules.activation.detach().double().requires_grad_()
    assert torch.autograd.gradcheck(run, (pose, activation, *parameters), **options)


def assert_gradient_accurate(
    layer: CapsuleLayer,
    capsules: Capsules,
    *,
    multiple: float = 100.0,
    floor: float = 1e-3,
    trials: int = 3,
    each: bool = False,
) -> None:
    r"""Gradients in float32 are as close to those in float64 as the rounding of the inputs allows.

    The error is the norm of the difference over the norm of the float64 gradients, by poses, activations and
    all parameters together. It is compared with the sensitivity of the problem: the largest change of the
    float64 gradients, measured in the same way, when every input and parameter moves by one unit in its last
    float32 place, up or down at random. The error must not exceed `multiple * sensitivity + floor`. So an
    ill-conditioned problem may have a large error, but a well-conditioned one may not.

    Both tolerances follow from how often a routing rounds. Some 100 roundings follow on each other in a few
    iterations and back; independent errors add up like the root of their number, to 10 units. A random move
    of some 100 inputs shows a typical change, and the largest is up to the root of their number larger, 10
    times. Together these are 100. Rounding also breaks symmetries that moves of the inputs keep, where the
    sensitivity says nothing: with terms up to 100 times as large as their sum, 100 roundings of 6e-8 make
    6e-4 of the sum.

    Args:
        layer: the layer.
        capsules: children that fit it.
        multiple: how many times the sensitivity the error may be.
        floor: the error that is always allowed.
        trials: how many random changes of the inputs are tried.
        each: compare the gradients of the poses, of the activations and of each parameter on their own, so
            that a small one is not hidden behind a large one.

    Example:
        >>> from torchcaps import Capsules, DenseCaps
        >>> layer = DenseCaps(6, 16, 5, 16, pose="matrix", routing="em")
        >>> assert_gradient_accurate(layer, Capsules(torch.randn(2, 6, 16), torch.rand(2, 6)))
    """
    single = deepcopy(layer).float()
    double = deepcopy(single).double()
    inputs = Capsules(*(values.detach().float() for values in capsules))
    exact = _gradients(double, _to_double(inputs), _plain, each)
    sensitivity = dict.fromkeys(exact, 0.0)
    for _ in range(trials):
        moved = deepcopy(double)
        with torch.no_grad():
            for parameter in moved.parameters():
                parameter.copy_(_last_place(parameter))
        nearby = _gradients(moved, Capsules(*map(_last_place, _to_double(inputs))), _plain, each)
        sensitivity = {what: max(sensitivity[what], _relative(nearby[what], exact[what])) for what in exact}
    for name, form in _forms(single, inputs).items():
        for what, gradient in _gradients(single, inputs, form, each).items():
            error, allowed = _relative(gradient, exact[what]), multiple * sensitivity[what] + floor
            assert error <= allowed, (
                f"float32 gradients of {what} in the {name} form: off by {error:.2g} of their norm, allowed: "
                f"{allowed:.2g} ({multiple:g} times the change by the last place of the inputs, plus "
                f"{floor:g})"
            )


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
    if transform is None:
        transform = space.random_transform()
    moved = Capsules(space.move(capsules.pose, transform), capsules.activation)
    for form in _forms(layer, capsules).values():
        before, after = form(layer, capsules), form(layer, moved)
        if before.coupling is not None and after.coupling is not None:
            _assert_close(after.coupling, before.coupling, atol, "couplings after a change of viewpoint")
        _assert_close(after.activation, before.activation, atol, "activations after a change of viewpoint")
        # Not number by number: two poses that are stored differently may be the same rotation.
        distance = space.distance(after.pose, space.move(before.pose, transform)).sqrt()
        _assert_close(distance, torch.zeros_like(distance), atol, "poses, moved by a change of viewpoint")


def _relative(values: Tensor, exact: Tensor) -> float:
    return float((values - exact).norm() / exact.norm().clamp(min=torch.finfo(torch.float32).tiny))


def _gradients(layer: CapsuleLayer, capsules: Capsules, form: Form, each: bool) -> dict[str, Tensor]:
    """All gradients of the outputs' sum in float64, in one vector, or each by its name."""
    inputs = Capsules(*(values.clone().requires_grad_() for values in capsules))
    parents = form(layer, inputs)
    wanted = dict(zip(inputs._fields, inputs)) | dict(layer.named_parameters())
    loss = parents.pose.sum() + parents.logits.sum()
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    found = {what: g.double().flatten() for what, g in zip(wanted, gradients) if g is not None}
    return found if each else {"all inputs and parameters": torch.cat(list(found.values()))}


def _to_double(capsules: Capsules) -> Capsules:
    return Capsules(*(values.double() for values in capsules))


def _last_place(values: Tensor) -> Tensor:
    """Each number moved by one unit in its last float32 place, up or down at random."""
    up = torch.randint(2, values.shape, device=values.device) * 2 - 1
    return values * (1 + up * torch.finfo(torch.float32).eps)


def _permute_children(weight: Tensor, order: Tensor) -> Tensor:
    return weight.unflatten(0, (-1, len(order)))[:, order].flatten(0, 1)


def _extremes(capsules: Capsules) -> dict[str, Capsules]:
    pose, activation = capsules.pose.detach().float(), capsules.activation.detach().float()
    scales = 10.0 ** torch.linspace(-15, 15, pose.shape[-2]).to(pose)[:, None]
    one_alive = torch.zeros_like(activation)
    one_alive.flatten(1)[:, 0] = 1.0
    return {
        "poses of zero": Capsules(torch.zeros_like(pose), activation),
        "poses of 1e15": Capsules(pose.sign() * 1e15, activation),
        "poses of 1e-15": Capsules(pose.sign() * 1e-15, activation),
        "poses of all scales": Capsules(pose * scales, activation),
        "dead children": Capsules(pose, torch.zeros_like(activation)),
        "dead children of zero pose": Capsules(torch.zeros_like(pose), torch.zeros_like(activation)),
        "nearly dead children": Capsules(pose, torch.full_like(activation, 1e-15)),
        "one child alive": Capsules(pose, one_alive),
        "children all alike": Capsules(torch.ones_like(pose), torch.ones_like(activation)),
    }


def _assert_close(got: Tensor, wanted: Tensor, atol: float, what: str) -> None:
    worst = float((got - wanted).detach().abs().max()) if got.numel() else 0.0
    assert worst <= atol, f"{what}: off by {worst:.3g}"


def _assert_finite(values: Tensor, what: str) -> None:
    assert bool(values.isfinite().all()), f"{what} is not finite"
