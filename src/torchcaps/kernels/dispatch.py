from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from threading import Lock
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


_default, _reason = _from_environment()
_override: ContextVar[bool | None] = ContextVar("torchcaps_kernels", default=None)
# How many `disabled()` and `enabled()` blocks are open, in all threads. `torch.compile` cannot follow a
# ContextVar, but compiles again when this number changes.
_open_blocks = 0
_lock = Lock()


def is_enabled() -> bool:
    """Whether kernels are used where they fit, in this thread and context."""
    return _default if _open_blocks == 0 else _enabled_in_context()


@torch.compiler.assume_constant_result
def _enabled_in_context() -> bool:
    override = _override.get()
    return _default if override is None else override


def status() -> Status:
    """What decides about kernels in this thread and context.

    Example:
        >>> status().threads == torch.get_num_threads() or not status().built or not native.parallel
        True
    """
    override = _override.get()
    reason = _reason if override is None else f"inside {'enabled' if override else 'disabled'}()"
    if native is None:
        return Status(is_enabled(), False, "", 0, reason)
    return Status(is_enabled(), True, native.instruction_set(), threads(), reason)


@contextmanager
def disabled() -> Iterator[None]:
    """Route in the plain form, for second derivatives or an export without custom operators.

    Holds for the current thread (and asyncio task) only.

    Example:
        >>> with disabled():
        ...     status().enabled
        False
    """
    with _overriding(False):
        yield


@contextmanager
def enabled() -> Iterator[None]:
    """Use kernels where they fit, whatever `TORCHCAPS_KERNELS` says; an error if they are not built.

    Holds for the current thread (and asyncio task) only.

    Example:
        >>> with disabled(), enabled():
        ...     status().enabled
        True
    """
    if native is None:
        raise ImportError(f"kernels cannot be enabled: {_missing}")
    with _overriding(True):
        yield


@contextmanager
def _overriding(value: bool) -> Iterator[None]:
    before = _override.get()
    _count_block(1)
    _override.set(value)
    try:
        yield
    finally:
        _override.set(before)
        _count_block(-1)


def _count_block(change: int) -> None:
    global _open_blocks
    with _lock:
        _open_blocks += change


def threads() -> int:
    """How many threads a kernel uses: PyTorch's number, if the kernels were built with OpenMP."""
    return torch.get_num_threads() if native is not None and native.parallel else 1


def fits(*tensors: Tensor | None) -> bool:
    """Whether kernels are enabled and can take these tensors: one type, float32 or float64, on the CPU."""
    if not is_enabled():
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


def contiguous(tensor: Tensor | None) -> Tensor | None:
    """The tensor as kernels read it: contiguous, and aligned to 64 bytes."""
    if tensor is None:
        return None
    tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % 64 == 0 else tensor.clone()


NO_SECOND_DERIVATIVE = (
    "the fused kernels have no second derivative: route inside `with torchcaps.kernels.disabled():`, "
    "or set TORCHCAPS_KERNELS=off"
)


def no_second_derivative(ctx: object, *grads: Tensor) -> None:
    """The backward pass of a backward operator: an error that says what to do."""
    raise NotImplementedError(NO_SECOND_DERIVATIVE)
