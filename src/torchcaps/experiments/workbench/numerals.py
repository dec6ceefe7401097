"""Numbers of one column, written so that they compare at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, log10
from typing import Any

FIGURES = 4


def is_number(value: Any) -> bool:
    """Whether a cell holds a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def column_texts(cells: Sequence[Any]) -> list[str]:
    """The cells of a column as text, all numbers but whole ones with as many decimals.

    The largest number decides how many; what would vanish beside it is written with a power of ten.

    >>> column_texts([100.0, 98.789, 0.66081, None, "none"])
    ['100.00', '98.79', '0.66', '–', 'none']
    >>> column_texts([2.9, 3.2]), column_texts([1234567, 12]), column_texts([0.5, 2.8123e-9])
    (['2.9', '3.2'], ['1,234,567', '12'], ['0.5', '2.8e-09'])
    """
    measured = [each for each in cells if isinstance(each, float) and isfinite(each)]
    largest = max(map(abs, measured), default=0.0)
    # 100 counts as below 100: percentages are the most common numbers, and 100 % is one of them.
    decimals = max(0, FIGURES - ceil(log10(largest))) if largest else 0
    # Zeros that nobody measured are not written: published numbers often have one decimal.
    decimals = min(decimals, max((written(each, decimals) for each in measured), default=0))
    return [cell_text(each, decimals, largest) for each in cells]


def written(value: float, most: int) -> int:
    """How many of at most so many decimals a number needs.

    >>> written(2.5, 4), written(1 / 3, 4), written(3.0, 4)
    (1, 4, 0)
    """
    return len(f"{value:.{most}f}".partition(".")[2].rstrip("0"))


def cell_text(value: Any, decimals: int, largest: float) -> str:
    """One cell; `largest` is the largest number of its column.

    >>> cell_text(-0.0004, 2, 90.0), cell_text(0.0, 2, 90.0), cell_text(4e-5, 8, 4e-5)
    ('-0.0004', '0.00', '4.0e-05')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if 0 < largest < 1e-3:
        return f"{value:.1e}"
    text = f"{value:.{decimals}f}"
    return f"{value:.2g}" if value and not float(text) else f"{value:,.{decimals}f}"
