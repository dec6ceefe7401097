from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from triton.runtime import interpreter

from support.kernel_cases import operator
from torchcaps.kernels import dynamic, em
from torchcaps.kernels.triton import dynamic as triton_dynamic
from torchcaps.kernels.triton import em as triton_em
from torchcaps.kernels.triton import launch


def dynamic_forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    pose, kept = triton_dynamic.dynamic_forward(*arguments)
    return pose.squeeze(1) if arguments[3] is None else pose, kept


@pytest.fixture(autouse=True)
def _triton_in_place_of_cpp(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let routings on the CPU use the Triton kernels."""
    monkeypatch.setattr(em, "em_forward", operator(triton_em.em_forward, triton_em.em_backward))
    monkeypatch.setattr(
        dynamic, "dynamic_forward", operator(dynamic_forward, triton_dynamic.dynamic_backward)
    )
    monkeypatch.setitem(dynamic.GEOMETRIES, "cpu", dynamic.GEOMETRIES["cuda"])
    # An exponent of a vote that is not there may overflow; it is masked afterwards.
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that every loop over blocks and splits runs more than once."""
    monkeypatch.setitem(launch.TABLES, "interpreter", launch.Table(threads=4, numbers=8, parents=2, splits=3))
    monkeypatch.setattr(launch, "LEAST_SHARE", 4)


patched: set[str] = set()


def call_without_patching(self: Any, *arguments: Any, **options: Any) -> Any:
    # The interpreter replaces all functions of the language in every call of a function of a kernel, although
    # they are replaced already, and that takes half of its time.
    # Functions of the language itself need it once.
    if "tl" not in self.fn.__globals__ and self.fn.__module__ not in patched:
        patched.add(self.fn.__module__)
        interpreter._patch_lang(self.fn)
    return self.rewrite()(*arguments, **options)


interpreter.InterpretedFunction.__call__ = call_without_patching
