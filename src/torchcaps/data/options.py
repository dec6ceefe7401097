from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchcaps.registry import suggest


def check_choice(what: str, value: Any, known: Sequence[Any]) -> None:
    """Raise a `ValueError` with the nearest right one unless `value` is among `known`.

    >>> check_choice("split", "tset", ("train", "test"))
    Traceback (most recent call last):
    ValueError: unknown split 'tset': did you mean 'test'? Known: test, train.
    """
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}: {suggest(value, [str(each) for each in known])}")


def check_positive(what: str, value: Any) -> None:
    """Raise a `ValueError` unless `value` is a whole number above zero."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a whole number above 0, got {value!r}")
