from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

native: ModuleType | None
try:
    native, _missing = import_module("torchcaps.kernels._native"), ""
except ImportError as error:
    native, _missing = None, f"the compiled part is missing ({error}); reinstall with a C++ compiler"


@dataclass(frozen=True)
class Status:
    """Whether routing may take a fused kernel, and why not.

    Attributes:
        enabled: whether kernels are used where they fit.
        built: whether the compiled part is there.
        instruction_set: `"avx512"`, `"avx2"` or `"baseline"`; empty if not built.
        threads: how many threads a kernel would use now.
        reason: what decided, in words.
    """

    enabled: bool
    built: bool
    instruction_set: str
    threads: int
    reason: str


def _from_environment() -> tuple[bool, str]:
    wish = os.environ.get("TORCHCAPS_KERNELS", "").strip().lower()
    if wish == "off":
        return False, "TORCHCAPS_KERNELS=off"
    if wish == "on":
        if native is None:
            raise ImportError(f"TORCHCAPS_KERNELS=on, but {_missing}")
        return True, "TORCHCAPS_KERNELS=on"
    if wish:
        raise ValueError(
            f"TORCHCAPS_KERNELS must be 'on' or 'off' (or unset to decide by itself), got {wish!r}"
        )
    return (False, _missing) if native is None else (True, "built")


_enabled, _reason = _from_environment()


def status() -> Status:
    """What decides about kernels here.

    Example:
        >>> status().threads == torch.get_num_threads() or not status().built or not native.parallel
        True
    """
    if native is None:
        return Status(_enabled, False, "", 0, _reason)
    return Status(_enabled, True, native.instruction_set(), threads(), _reason)


@contextmanager
def disabled() -> Iterator[None]:
    """Route in the plain form, for second derivatives or an export without custom operators.

    Example:
        >>> with disabled():
        ...     status().enabled
        False
    """
    global _enabled, _reason
    before = _enabled, _reason
    _enabled, _reason = False, "disabled() is in force"
    try:
        yield
    finally:
        _enabled, _reason = before


def threads() -> int:
    """How many threads a kernel uses: PyTorch's number, if the kernels were built with OpenMP."""
    return torch.get_num_threads() if native is not None and native.parallel else 1


def fits(*tensors: Tensor | None) -> bool:
    """Whether kernels are enabled and can take these tensors: one type, float32 or float64, on the CPU."""
    if not _enabled:
        return False
    given = [tensor for tensor in tensors if tensor is not None]
    dtype = given[0].dtype
    if dtype not in (torch.float32, torch.float64):
        return False
    if any(tensor.dtype != dtype or tensor.device.type != "cpu" for tensor in given):
        return False
    return torch.compiler.is_compiling() or not _transformed()


def _transformed() -> bool:
    # vmap, jvp and their kin look inside operators, where kernels have nothing to show.
    inside = getattr(torch._C, "_functorch", None)
    active = inside is not None and inside.peek_interpreter_stack() is not None
    return active or torch.autograd.forward_ad._current_level >= 0


def function(name: str, dtype: torch.dtype) -> object:
    """The compiled function of that name for that type."""
    return getattr(native, f"{name}_{str(dtype).removeprefix('torch.')}")


def address(tensor: Tensor | None) -> int:
    """Where the numbers of a contiguous tensor are, 0 for none."""
    return 0 if tensor is None else tensor.data_ptr()


NO_SECOND_DERIVATIVE = (
    "the fused kernels have no second derivative: route inside `with torchcaps.kernels.disabled():`, "
    "or set TORCHCAPS_KERNELS=off"
)
