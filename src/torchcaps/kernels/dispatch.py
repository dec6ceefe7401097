"""Whether kernels are enabled and fit, and how operators call the compiled part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.library import CustomOpDef

from torchcaps._compiling import constant_result, exporting, transformed
from torchcaps.kernels import trust

native: ModuleType | None
try:
    native, _missing = import_module("torchcaps.kernels._native"), ""
except ImportError as error:
    native, _missing = None, f"the compiled part is missing ({error}); reinstall with GCC or Clang"


def _missing_on_gpu() -> str:
    """Why there are no kernels for GPUs; empty if there are."""
    if torch.version.cuda is None and torch.version.hip is None:
        return "this PyTorch was built without CUDA and ROCm"
    if find_spec("triton") is None:
        return "triton is missing; install 'torchcaps[triton]'"
    return ""


# Triton itself is imported by the first call on a GPU.
missing_on_gpu = _missing_on_gpu()


def compiled() -> ModuleType:
    """The compiled part; an error if it is missing."""
    if native is None:
        raise ImportError(f"the fused kernels cannot be used: {_missing}")
    return native


@dataclass(frozen=True)
class Status:
    """Whether routing uses fused kernels, and why.

    Attributes:
        enabled: whether kernels are used where they fit.
        built: whether the compiled part was built.
        instruction_set: `"avx512"`, `"avx2"` or `"baseline"`; empty if not built.
        threads: number of threads that a kernel would use now; 0 if not built.
        reason: why kernels are enabled or not.
        gpu: `"triton"` if there are kernels for GPUs, or else why not.
        plain_on_gpu: why layers on a GPU took the plain form so far, each reason once.
    """

    enabled: bool
    built: bool
    instruction_set: str
    threads: int
    reason: str
    gpu: str
    plain_on_gpu: tuple[str, ...]


def _from_environment() -> tuple[bool, str]:
    setting = os.environ.get("TORCHCAPS_KERNELS", "").strip().lower()
    if setting == "off":
        return False, "TORCHCAPS_KERNELS=off"
    if setting == "on":
        if native is None and missing_on_gpu:
            raise ImportError(f"TORCHCAPS_KERNELS=on, but {_missing}")
        return True, "TORCHCAPS_KERNELS=on"
    if setting:
        raise ValueError(
            f"TORCHCAPS_KERNELS must be 'on' or 'off' or unset (kernels are used if built), got {setting!r}"
        )
    if native is None:
        return (False, _missing) if missing_on_gpu else (True, f"on GPUs only: {_missing}")
    return True, "built"


_default, _reason = _from_environment()
_override: ContextVar[bool | None] = ContextVar("torchcaps_kernels", default=None)
# How many `disabled()` and `enabled()` blocks are open, in all threads. `torch.compile` cannot follow a
# ContextVar, but compiles again when this number changes.
_open_blocks = 0
_lock = Lock()


def is_enabled() -> bool:
    """Whether kernels are used where they fit, in this thread and context."""
    return _default if _open_blocks == 0 else _enabled_in_context()


@constant_result
def _enabled_in_context() -> bool:
    override = _override.get()
    return _default if override is None else override


def turned_off() -> bool:
    """Whether the user turned the kernels off, by `disabled()` or `TORCHCAPS_KERNELS=off`."""
    override = _override.get()
    return override is False or (override is None and _reason == "TORCHCAPS_KERNELS=off")


def why_missing(device: torch.device) -> str:
    """Why there are no kernels for a device; empty if there are."""
    if is_gpu(device):
        return missing_on_gpu
    return _missing if device.type == "cpu" else f"there are none for {device.type}"


def status() -> Status:
    """Whether kernels are enabled in this thread and context, and why.

    Example:
        >>> status().threads == torch.get_num_threads() or not status().built or not native.parallel
        True
    """
    override = _override.get()
    reason = _reason if override is None else f"inside {'enabled' if override else 'disabled'}()"
    on_gpu = missing_on_gpu or "triton", tuple(_plain_on_gpu)
    if native is None:
        return Status(is_enabled(), False, "", 0, reason, *on_gpu)
    return Status(is_enabled(), True, native.instruction_set(), threads(), reason, *on_gpu)


@contextmanager
def disabled() -> Iterator[None]:
    """Use the plain form, for second derivatives; an export gets it without this.

    Applies to the current thread (and asyncio task) only.

    Example:
        >>> with disabled():
        ...     status().enabled
        False
    """
    with _overriding(False):
        yield


@contextmanager
def enabled() -> Iterator[None]:
    """Use kernels where they fit, also if `TORCHCAPS_KERNELS=off`; an error if they are not built.

    Applies to the current thread (and asyncio task) only.

    Example:
        >>> with disabled(), enabled():
        ...     status().enabled
        True
    """
    if missing_on_gpu:
        compiled()
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
    """Number of threads of a kernel: as many as PyTorch uses, or 1 if built without OpenMP."""
    return torch.get_num_threads() if native is not None and native.parallel else 1


def fits(*tensors: Tensor | None) -> bool:
    """Whether kernels are enabled and support these tensors.

    They must be all float32 or all float64 on the CPU, or all float32 on a GPU.
    An export gets the plain form.
    """
    if exporting() or not is_enabled():
        return False
    present = [tensor for tensor in tensors if tensor is not None]
    dtype, device = present[0].dtype, present[0].device
    if any(tensor.dtype != dtype or tensor.device != device for tensor in present):
        return False
    if is_gpu(device):
        if missing_on_gpu:
            return plain_on_gpu(missing_on_gpu)
        if dtype != torch.float32:
            return plain_on_gpu(f"poses are {dtype}, and the kernels are for torch.float32")
        reason = trust.distrust(device)
        if reason:
            return plain_on_gpu(reason)
    elif device.type != "cpu" or native is None or dtype not in (torch.float32, torch.float64):
        return False
    return torch.compiler.is_compiling() or not transformed()


def is_gpu(device: torch.device) -> bool:
    """Whether the Triton kernels are those for this device; PyTorch calls AMD's GPUs "cuda" too."""
    return device.type == "cuda"


_plain_on_gpu: dict[str, None] = {}


def plain_on_gpu(reason: str) -> bool:
    """Keep a reason for the plain form on a GPU, which `status` returns; always `False`."""
    if not torch.compiler.is_compiling():
        _plain_on_gpu[reason] = None
    return False


DTYPE_NAMES = {torch.float32: "float32", torch.float64: "float64", torch.int64: "int64"}


def call(
    function: str, inputs: Mapping[str, Tensor | None], outputs: Mapping[str, Tensor], **options: object
) -> None:
    """Call a compiled function, which checks sizes and types of all tensors.

    Args:
        function: its name.
        inputs: tensors by the names of its arguments; they are made contiguous.
        outputs: new tensors that it writes to, by the names of its arguments.
        options: all its other arguments except `threads`.
    """
    # The function gets only addresses: these references keep contiguous copies alive until it returns.
    tensors = {name: contiguous(tensor) for name, tensor in inputs.items()}
    tensors.update(outputs)
    views = {
        name: None if tensor is None else (tensor.data_ptr(), tensor.shape, DTYPE_NAMES[tensor.dtype])
        for name, tensor in tensors.items()
    }
    getattr(compiled(), function)(**views, **options, threads=threads())


def contiguous(tensor: Tensor | None) -> Tensor | None:
    """The tensor, or a copy if it is not contiguous or not aligned to 64 bytes."""
    if tensor is None:
        return None
    tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % 64 == 0 else tensor.clone()


def register_backward(forward: CustomOpDef, backward: CustomOpDef, tensors: int) -> None:
    """Make `backward` the gradient of `forward`.

    Args:
        forward: operator with inputs `(*tensors, *options)`; its last output is only for the backward pass.
        backward: operator with inputs `(*grads of the other outputs, last output, *tensors, *options)`; it
            returns the gradients of the first tensors.
        tensors: number of tensors among the inputs, counting those that may be `None`.
    """

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:tensors], output[-1])
        ctx.options = inputs[tensors:]

    def gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, saved = ctx.saved_tensors
        results = backward(*grads[:-1], saved, *inputs, *ctx.options)
        used = [None if tensor is None else grad for tensor, grad in zip(inputs, results)]
        return (*used, *[None] * (tensors + len(ctx.options) - len(used)))

    forward.register_autograd(gradients, setup_context=setup_context)
    backward.register_autograd(no_second_derivative)


def no_second_derivative(ctx: object, *grads: Tensor) -> None:
    """The gradient of a backward operator: an error with a way out."""
    raise NotImplementedError(
        "the fused kernels have no second derivative: route inside `with torchcaps.kernels.disabled():`, "
        "or set TORCHCAPS_KERNELS=off"
    )
