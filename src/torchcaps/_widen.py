from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Widen(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        return values.double()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.dtype = inputs[0].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        largest = torch.finfo(ctx.dtype).max
        return gradient.clamp(-largest, largest).to(ctx.dtype)


def widen(values: Tensor) -> Tensor:
    """The values in float64; a gradient that their own type cannot hold becomes its largest number.

    Example:
        >>> values = torch.ones(1, requires_grad=True)
        >>> (1e60 * widen(values)).sum().backward()
        >>> values.grad
        tensor([3.4028e+38])
    """
    widened: Tensor = _Widen.apply(values)
    return widened
