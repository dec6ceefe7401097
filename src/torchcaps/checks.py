"""Checks at the door: each raises `ValueError` naming the argument, what it got and what was wanted."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchcaps.registry import suggest


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
    wanted = "[" + ", ".join(f"{n}={sizes[n]}" if n in sizes else n for n in names) + "]"
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor {wanted}, got {type(value).__name__}")
    fits = value.ndim == len(names) and all(value.shape[names.index(n)] == size for n, size in sizes.items())
    if not fits:
        raise ValueError(f"{name} must be {wanted}, got {list(value.shape)}")
    if not value.is_floating_point():
        raise ValueError(
            f"{name} must be a floating-point tensor, got {value.dtype}; convert it with .float()"
        )


def check_count(name: str, value: object, minimum: int = 1) -> int:
    """Check that `value` is a whole number of at least `minimum`.

    >>> check_count("iterations", -1)
    Traceback (most recent call last):
    ValueError: iterations must be a whole number of at least 1, got -1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return value


def check_number(name: str, value: object, minimum: float = 0.0, *, above: bool = False) -> float:
    """Check that `value` is a finite number, at least `minimum` (or above it).

    >>> check_number("temperature", float("nan"))
    Traceback (most recent call last):
    ValueError: temperature must be a finite number of at least 0.0, got nan
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not (value > minimum if above else value >= minimum) or value == float("inf"):  # type: ignore[operator]
        bound = "above" if above else "of at least"
        raise ValueError(f"{name} must be a finite number {bound} {minimum}, got {value!r}")
    return float(value)  # type: ignore[arg-type]


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Check that `value` is one of `choices`.

    >>> check_choice("update", "acumulate", ("accumulate", "fixed_point"))
    Traceback (most recent call last):
    ValueError: update='acumulate' is unknown: did you mean 'accumulate'? Known: accumulate, fixed_point.
    """
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown: {suggest(value, choices)}")
    return str(value)


def check_target(target: object, scores: Tensor) -> None:
    """Check class labels `[B]` (whole numbers) against scores `[B, classes]`.

    The range is only looked at on the CPU, where looking costs nothing.
    """
    if not isinstance(target, Tensor) or target.dtype not in (torch.int64, torch.int32, torch.uint8):
        got = target.dtype if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"target must be a tensor of whole class numbers [B], got {got}")
    if target.shape != scores.shape[:1]:
        raise ValueError(f"target must be [B={scores.shape[0]}], got {list(target.shape)}")
    if target.device.type == "cpu" and target.numel() and not torch.compiler.is_compiling():
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= scores.shape[1]:
            raise ValueError(f"target must lie in 0..{scores.shape[1] - 1}, got values from {low} to {high}")
