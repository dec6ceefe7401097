from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Widen(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, power: float) -> Tensor:
        return values.double()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype
        ctx.largest = torch.finfo(ctx.dtype).max ** inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.clamp(-ctx.largest, ctx.largest).to(ctx.dtype), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return tangent.double()


def widen(values: Tensor, power: float = 1.0) -> Tensor:
    """The values in float64; a gradient that their own type cannot hold becomes its largest number.

    That number to the `power` is the limit: with 0.5, a gradient may still be divided by a mass of 1e-19.

    Example:
        >>> values = torch.ones(1, requires_grad=True)
        >>> (1e60 * widen(values)).sum().backward()
        >>> values.grad
        tensor([3.4028e+38])
    """
    widened: Tensor = _Widen.apply(values, power)
    return widened
