"""Checks of arguments: each raises `ValueError` naming the argument, what it got and what it expected."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import torch
from torch import Tensor

from torchcaps._compiling import NOT_SYMBOLIC, can_read
from torchcaps._registry import suggest

WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_tensor(name: str, value: object, layout: str, **sizes: int) -> None:
    """Check that `value` is a floating tensor laid out as `layout`, with the named sizes fixed.

    Args:
        name: what to call the tensor in the error.
        value: the tensor.
        layout: names of the dimensions, such as `"B N D"`.
        sizes: the size that some of those dimensions must have.

    Example:
        >>> check_tensor("pose", torch.zeros(2, 6, 8), "B N D", D=8)
        >>> check_tensor("pose", torch.zeros(2, 6, 4), "B N D", D=8)
        Traceback (most recent call last):
        ValueError: pose must be [B, N, D=8], got [2, 6, 4]
    """
    names = layout.split()
    if (
        not isinstance(value, Tensor)
        or value.ndim != len(names)
        or any(value.shape[names.index(n)] != size for n, size in sizes.items())
    ):
        wanted = "[" + ", ".join(f"{n}={sizes[n]}" if n in sizes else n for n in names) + "]"
        if not isinstance(value, Tensor):
            refuse_symbols(value)
            raise ValueError(f"{name} must be a tensor {wanted}, got {type(value).__name__}")
        raise ValueError(f"{name} must be {wanted}, got {list(value.shape)}")
    check_floating(name, value)


def check_floating(name: str, value: object, dims: int = 1) -> None:
    """Check that `value` is a floating tensor of at least `dims` dimensions.

    >>> check_floating("vectors", torch.ones(3, dtype=torch.int64))
    Traceback (most recent call last):
    ValueError: vectors must be a floating-point tensor, got torch.int64; convert it with .float()
    """
    if not isinstance(value, Tensor):
        refuse_symbols(value)
        raise ValueError(f"{name} must be a tensor, got {type(value).__name__}")
    if value.ndim < dims:
        raise ValueError(f"{name} must have at least {dims} dimensions, got {list(value.shape)}")
    if not value.is_floating_point():
        raise ValueError(
            f"{name} must be a floating-point tensor, got {value.dtype}; convert it with .float()"
        )


def refuse_symbols(value: object) -> None:
    """Raise for what `torch.fx.symbolic_trace` passes in place of tensors."""
    if isinstance(value, torch.fx.Proxy):
        raise NotImplementedError(NOT_SYMBOLIC)


def check_dtype(name: str, value: Tensor, weight: Tensor) -> None:
    """Check that `value` has the dtype of the weights; under autocast half precision is allowed."""
    device = value.device.type
    half = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    half = half and torch.float64 not in (value.dtype, weight.dtype)
    if value.dtype != weight.dtype and not half:
        raise ValueError(
            f"{name} must be {weight.dtype} as the weights are, got {value.dtype}; "
            f"convert it with .to({weight.dtype}), or the layer with .to({value.dtype})"
        )


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """Check that `value` is a whole number of at least `minimum`.

    >>> check_count("iterations", -1)
    Traceback (most recent call last):
    ValueError: iterations must be a whole number of at least 1, got -1
    """
    try:
        count = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if count < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return count


def check_counts(name: str, value: object, length: int | None = None) -> tuple[int, ...]:
    """Check that `value` is a tuple or list of whole numbers of at least 1, `length` of them if given.

    >>> check_counts("image_size", "28", 2)
    Traceback (most recent call last):
    ValueError: image_size must be 2 whole numbers, got '28'
    """
    if not isinstance(value, (tuple, list)) or len(value) != (len(value) if length is None else length):
        number = "a tuple of" if length is None else length
        raise ValueError(f"{name} must be {number} whole numbers, got {value!r}")
    return tuple(check_count(name, item) for item in value)


def check_flag(name: str, value: object) -> bool:
    """Check that `value` is a bool; the string `"no"`, for example, would count as true.

    >>> check_flag("leaky", "no")
    Traceback (most recent call last):
    ValueError: leaky must be True or False, got 'no'
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return value


def check_number(name: str, value: object, minimum: float | None = 0.0, *, above: bool = False) -> float:
    """Check that `value` is a finite number, at least `minimum` (or above it) if there is one.

    >>> check_number("temperature", float("nan"))
    Traceback (most recent call last):
    ValueError: temperature must be a finite number of at least 0.0, got nan
    """
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    enough = minimum is None or number > minimum or (number == minimum and not above)
    if math.isfinite(number) and enough:
        return number
    bound = "" if minimum is None else f" above {minimum}" if above else f" of at least {minimum}"
    raise ValueError(f"{name} must be a finite number{bound}, got {value!r}")


def check_choice(name: str, value: object, choices: Sequence[object]) -> str:
    """Check that `value` is one of `choices`.

    >>> check_choice("update", "acumulate", ("accumulate", "fixed_point"))
    Traceback (most recent call last):
    ValueError: unknown update 'acumulate': did you mean 'accumulate'? Known: accumulate, fixed_point.
    """
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}: {suggest(value, [str(each) for each in choices])}")
    return str(value)


def check_target(target: object, scores: Tensor) -> None:
    """Check class labels `[B]` (whole numbers) against scores `[B, classes]`.

    The range is checked on the CPU only: on a GPU the check would wait for the device.
    """
    if not isinstance(target, Tensor) or target.dtype not in WHOLE:
        got = target.dtype if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"target must be a tensor of whole class numbers [B], got {got}")
    if target.shape != scores.shape[:1]:
        raise ValueError(f"target must be [B={scores.shape[0]}], got {list(target.shape)}")
    if can_read(target):
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= scores.shape[1]:
            raise ValueError(f"target must lie in 0..{scores.shape[1] - 1}, got values from {low} to {high}")
