"""How votes are computed in compiled code: inside every sum over them, never stored.

In plain code the vote tensor is computed once and every sum reads it. `torch.compile` can do better: it
turns a chain of elementwise operations that ends in a sum into one loop. Votes written elementwise are then
computed inside the loop that adds them up, and never stored in memory. Three things make this happen:

- 4×4 products are written as four multiply-adds: a matrix product is a library call that writes memory;
- each sum computes its own votes (`recompute`): what several loops read is computed once and stored;
- what is small and read often, poses and matrices, is stored first (`materialize`), parents innermost, so
  that neighboring lanes or threads read neighboring numbers.

Vector poses keep their matrix product: with 8 to 128 numbers in a pose, the product is what costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Function = TypeVar("Function", bound=Callable[..., Any])

# Options of `torch.compile` that inline votes. By default it stores whatever reads more than 4 (or in the end
# 8 to 12) numbers; one number of a 4×4 vote reads 8, and one of its gradient twice as many.
INLINE_VOTES: dict[str, str | int | bool | Callable[..., Any]] = {
    "realize_reads_threshold": 64,
    "realize_acc_reads_threshold": 64,
    "realize_opcount_threshold": 256,
}

_in_torch_export = getattr(torch.compiler, "is_exporting", lambda: False)


NOT_SCRIPTABLE = (
    "torch.jit.script cannot compile the layers and networks of torchcaps: a routing is a Python generator. "
    "Use torch.jit.trace, torch.export.export or torchcaps.export instead"
)
NOT_SYMBOLIC = (
    "torch.fx.symbolic_trace cannot record the layers and networks of torchcaps: they look at the shapes of "
    "their inputs. Use torch.export.export instead, which gives an fx graph too"
)


class Unscriptable:
    """Mixin of modules that `torch.jit.script` cannot compile: it is told so in a sentence.

    PyTorch calls this hook of every module before it compiles, so a network of one's own that holds a capsule
    layer gets the sentence too.
    """

    def __prepare_scriptable__(self) -> NoReturn:
        raise NotImplementedError(NOT_SCRIPTABLE)


def constant_result(function: Function) -> Function:
    """Decorator: `torch.compile` calls this function while it compiles, and keeps its result.

    What `torch.compiler.assume_constant_result` does, without its import of all of `torch._dynamo`, which
    takes as long as that of torch itself.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def exporting() -> bool:
    """Whether this runs for `torch.export`, `torch.onnx.export` or `torch.jit.trace`.

    What they record must run without torchcaps: no kernels, no operators of our own, no checks of values.
    """
    return _in_torch_export() or torch.jit.is_tracing() or torch.onnx.is_in_onnx_export()


def compiling() -> bool:
    """Whether this runs as part of `torch.compile`; an exported graph gets the plain form."""
    return torch.compiler.is_compiling() and not exporting()


def recording() -> bool:
    """Whether operations are recorded rather than run: checks of one's own code were made before that."""
    return torch.compiler.is_compiling() or exporting()


def transformed() -> bool:
    """Whether `vmap`, `jvp` or another transform runs this; it needs operators that it can trace into."""
    functorch = getattr(torch._C, "_functorch", None)
    active = functorch is not None and functorch.peek_interpreter_stack() is not None
    return active or torch.autograd.forward_ad._current_level >= 0


def can_read(values: Tensor) -> bool:
    """Whether a check may look at the values of a tensor.

    On a GPU it would wait for the device; `torch.compile`, an export and `vmap` have no values yet.
    """
    if recording() or transformed():
        return False
    return values.device.type == "cpu" and values.numel() > 0


@torch.library.custom_op("torchcaps::materialize", mutates_args=())
def materialize(values: Tensor, mark: int) -> Tensor:
    """A contiguous copy that compiled code stores; copies with different marks are never merged."""
    return values.clone(memory_format=torch.contiguous_format)


@materialize.register_fake
def _(values: Tensor, mark: int) -> Tensor:
    return values.new_empty(values.shape)


def _keep_gradient(context: object, gradient: Tensor) -> tuple[Tensor, None]:
    return gradient, None


materialize.register_autograd(_keep_gradient)


def realize(values: Tensor) -> Tensor:
    """The same values, computed here once and not again by every loop that reads them."""
    return materialize(values, 0) if compiling() else values


def recompute(
    function: Callable[..., Any],
    compute: Callable[[Tensor], Tensor],
    poses: Tensor,
    mark: int,
    *others: Tensor,
) -> Any:
    """`function(compute(poses), *others)` with votes of its own, computed again in the backward pass."""

    def run(poses: Tensor, *others: Tensor) -> Any:
        return function(compute(materialize(poses, mark)), *others)

    return checkpoint(run, poses, *others, use_reentrant=False, preserve_rng_state=False)
