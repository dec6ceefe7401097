"""How numbers are written in reports: in sentences, and in the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, log10
from typing import Any, NamedTuple

SIGNIFICANT_DIGITS = 4


class Spread(NamedTuple):
    """A number that was measured several times; the deviation is `None` if it was measured once."""

    mean: float
    sd: float | None


def percent(value: float) -> str:
    """A percentage in a sentence, always with one decimal.

    >>> percent(12.345), percent(100)
    ('12.3 %', '100.0 %')
    """
    return f"{value:.1f} %"


def small_number(value: float) -> str:
    """A number of which only the order of magnitude matters, with one significant digit.

    The hyphen of the exponent does not break, so that the number stays on one line.

    >>> small_number(5.149e-9) == "5e\N{NON-BREAKING HYPHEN}09"
    True
    """
    return f"{value:.1g}".replace("-", "\N{NON-BREAKING HYPHEN}")


def is_number(value: Any) -> bool:
    """Whether a table cell holds a number."""
    return isinstance(value, (int, float, Spread)) and not isinstance(value, bool)


def format_column(cells: Sequence[Any]) -> list[str]:
    """The cells of a table column as text, all decimal numbers with the same number of decimals.

    The largest number sets the number of decimals; a number that would be shown as 0 is written with an
    exponent.

    >>> format_column([100.0, 98.789, 0.66081, None, "none"])
    ['100.00', '98.79', '0.66', '–', 'none']
    >>> format_column([2.9, 3.2]), format_column([1234567, 12]), format_column([0.5, 2.8123e-9])
    (['2.9', '3.2'], ['1,234,567', '12'], ['0.5', '2.8e-09'])
    >>> format_column([Spread(97.25, 0.5), Spread(96.0, None), None])
    ['97.2 ± 0.5', '96.0', '–']
    """
    numbers = [cell.mean if isinstance(cell, Spread) else cell for cell in cells]
    numbers = [number for number in numbers if isinstance(number, float) and isfinite(number)]
    largest = max(map(abs, numbers), default=0.0)
    # 100 gets as many decimals as 99: most numbers are percentages, and 100 % is one of them.
    decimals = max(0, SIGNIFICANT_DIGITS - ceil(log10(largest))) if largest else 0
    # No zeros that were not measured: published numbers often have one decimal.
    decimals = min(decimals, max((needed_decimals(number, decimals) for number in numbers), default=0))
    return [format_cell(cell, decimals, largest) for cell in cells]


def needed_decimals(value: float, most: int) -> int:
    """How many decimals a number has, when rounded to at most `most`.

    >>> needed_decimals(2.5, 4), needed_decimals(1 / 3, 4), needed_decimals(3.0, 4)
    (1, 4, 0)
    """
    return len(f"{value:.{most}f}".partition(".")[2].rstrip("0"))


def format_cell(value: Any, decimals: int, largest: float) -> str:
    """One cell as text.

    Args:
        value: number, text, `Spread`, `True`, `False` or `None`.
        decimals: decimals of the column.
        largest: largest number of the column.

    Example:
        >>> format_cell(-0.0004, 2, 90.0), format_cell(0.0, 2, 90.0), format_cell(4e-5, 8, 4e-5)
        ('-0.0004', '0.00', '4.0e-05')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Spread):
        # One decimal: the deviation of a few seeds is not known better.
        return f"{value.mean:.1f}" + (f" ± {value.sd:.1f}" if value.sd is not None else "")
    if not isinstance(value, float):
        return str(value)
    if 0 < largest < 1e-3:
        return f"{value:.1e}"
    text = f"{value:.{decimals}f}"
    return f"{value:.2g}" if value and not float(text) else f"{value:,.{decimals}f}"
