"""Laws on numbers: outputs and gradients are finite and accurate."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor

from torchcaps.capsules import Capsules, length
from torchcaps.layers import CapsuleLayer
from torchcaps.testing.forms import Form, forms, plain


def assert_finite_everywhere(layer: CapsuleLayer, capsules: Capsules) -> None:
    """Outputs and gradients are finite for any finite input, in float32 and under bfloat16 autocast.

    Tries poses of zeros, 1e15, 1e-15 and a mixture of scales, all children dead, all but one dead, and all
    alike; `capsules` gives the shape.
    """
    layer = deepcopy(layer).float()
    extremes = _extremes(capsules)
    every = forms(layer, next(iter(extremes.values()))).values()
    for name, case in extremes.items():
        for autocast, form in product((False, True), every):
            pose = case.pose.clone().requires_grad_()
            activation = case.activation.clone().requires_grad_()
            with torch.autocast(pose.device.type, torch.bfloat16, enabled=autocast):
                parents = form(layer, Capsules(pose, activation))
            where = f"with {name}{' under autocast' if autocast else ''}"
            for what in ("pose", "activation", "logits"):
                _assert_finite(getattr(parents, what), f"{what} {where}")
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
    exact = _gradients(double, _to_double(inputs), plain, each)
    sensitivity = dict.fromkeys(exact, 0.0)
    for _ in range(trials):
        moved = deepcopy(double)
        with torch.no_grad():
            for parameter in moved.parameters():
                parameter.copy_(_last_place(parameter))
        nearby = _gradients(moved, Capsules(*map(_last_place, _to_double(inputs))), plain, each)
        sensitivity = {what: max(sensitivity[what], _relative(nearby[what], exact[what])) for what in exact}
    for name, form in forms(single, inputs).items():
        for what, gradient in _gradients(single, inputs, form, each).items():
            error, allowed = _relative(gradient, exact[what]), multiple * sensitivity[what] + floor
            assert error <= allowed, (
                f"float32 gradients of {what} in the {name} form: off by {error:.2g} of their norm, allowed: "
                f"{allowed:.2g} ({multiple:g} times the change by the last place of the inputs, plus "
                f"{floor:g})"
            )


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


def _assert_finite(values: Tensor, what: str) -> None:
    wrong = int((~values.isfinite()).sum())
    assert not wrong, (
        "outputs and gradients must be finite for any finite input, but of the "
        f"{what} {wrong} of {values.numel()} numbers are not"
    )
