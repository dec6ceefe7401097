"""The Triton functions as operators: `opcheck` on the CPU, in the interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from torchcaps.kernels.triton import dynamic, em
from torchcaps.kernels.triton.sizes import dynamic_totals_shape, em_statistics_shape

TESTS = ("test_schema", "test_faketensor")


@torch.library.custom_op("torchcaps_test::em", mutates_args=())
def em_forward(pose: Tensor, activation: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return em.em_forward(pose, activation, weight, None, None, None, None, [0.1, 0.2], 1.0, 1e-6)


@em_forward.register_fake
def _(pose: Tensor, activation: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, children, parents = *pose.shape[:2], weight.shape[1]
    kept = em_statistics_shape(batch, 2, parents, children)
    shapes = ((batch, 1, parents, 16), (batch, 1, parents), (batch, 1, parents), kept)
    first, second, third, fourth = (pose.new_empty(shape) for shape in shapes)
    return first, second, third, fourth


@torch.library.custom_op("torchcaps_test::dynamic", mutates_args=())
def dynamic_forward(pose: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return dynamic.dynamic_forward(pose, weight, None, None, False, 2, True, False, True)


@dynamic_forward.register_fake
def _(pose: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    batch, children, parents, size = *pose.shape[:2], weight.shape[1], weight.shape[3]
    kept = dynamic_totals_shape(batch, 2, parents, size, children)
    return pose.new_empty(batch, 1, parents, size), pose.new_empty(kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "shapes"),
    [(em_forward, ((2, 3, 16), (2, 3), (3, 2, 4, 4))), (dynamic_forward, ((2, 3, 4), (3, 2, 4, 5)))],
)
def test_inputs_are_not_changed_and_sizes_are_those_of_the_fake_kernel(operator: Any, shapes: Any) -> None:
    torch.library.opcheck(operator, tuple(torch.rand(shape) for shape in shapes), test_utils=TESTS)
