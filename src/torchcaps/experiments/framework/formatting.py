"""How numbers are written in reports: in sentences, and in the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10
from statistics import mean, stdev
from typing import Any, NamedTuple

SIGNIFICANT_DIGITS = 4


class Spread(NamedTuple):
    """A number that was measured several times; the deviation is `None` if it was measured once."""

    mean: float
    sd: float | None
    values: tuple[float, ...] = ()


def spread_of(values: Sequence[float]) -> Spread:
    """Mean and standard deviation of measured values.

    >>> spread_of([1.0, 2.0, 3.0])
    Spread(mean=2.0, sd=1.0, values=(1.0, 2.0, 3.0))
    """
    return Spread(mean(values), stdev(values) if len(values) > 1 else None, tuple(values))


def cell_json(cell: Any) -> Any:
    """A cell of a table as JSON can hold it; `cell_from_json` reads it.

    >>> cell_json(spread_of([1.0, 3.0])) == {"mean": 2.0, "sd": 2 ** 0.5, "values": [1.0, 3.0]}
    True
    """
    if isinstance(cell, Spread):
        return {"mean": cell.mean, "sd": cell.sd, "values": list(cell.values)}
    return cell


def cell_from_json(cell: Any) -> Any:
    """A cell of a table that `cell_json` wrote.

    >>> cell_from_json(cell_json(spread_of([1.0, 3.0]))) == spread_of([1.0, 3.0])
    True
    """
    return Spread(cell["mean"], cell["sd"], tuple(cell["values"])) if isinstance(cell, dict) else cell


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


def format_columns(headings: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The columns of a table as text; all percentages of the table have the same number of decimals.

    >>> format_columns(["single (%)", "crowded (%)", "epochs"], [[100.0, 100.0], [98.789, 84.0], [3.5, 4.0]])
    [['100.00', '100.00'], ['98.79', '84.00'], ['3.5', '4.0']]
    """
    percent = [heading.endswith("(%)") for heading in headings]
    decimals = column_decimals([cell for cells, own in zip(columns, percent) if own for cell in cells])
    return [format_column(cells, decimals if own else None) for cells, own in zip(columns, percent)]


def format_column(cells: Sequence[Any], decimals: int | None = None) -> list[str]:
    """The cells of a table column as text, all decimal numbers with the same number of decimals.

    The largest number sets the number of decimals; a number that would be shown as 0 is written with an
    exponent. In a column with deviations, all numbers have as many decimals as the largest deviation needs.

    Args:
        cells: of the column.
        decimals: of all numbers; by default as many as the column needs.

    Example:
        >>> format_column([100.0, 98.789, 0.66081, None, "none"])
        ['100.00', '98.79', '0.66', '–', 'none']
        >>> format_column([2.9, 3.2]), format_column([1234567, 12]), format_column([0.5, 2.8123e-9])
        (['2.9', '3.2'], ['1,234,567', '12'], ['0.5', '2.8e-09'])
        >>> format_column([Spread(97.25, 0.5), Spread(96.0, None), 100.0, None])
        ['97.2 ± 0.5', '96.0', '100.0', '–']
        >>> format_column([Spread(0.523, 0.012), 0.79])
        ['0.52 ± 0.01', '0.79']
    """
    decimals = column_decimals(cells) if decimals is None else decimals
    if any(isinstance(cell, Spread) for cell in cells):
        return [format_spread(cell, decimals) for cell in cells]
    return [format_cell(cell, decimals, largest_of(cells)) for cell in cells]


def largest_of(cells: Sequence[Any]) -> float:
    """The largest number of a column, without its sign."""
    return max((abs(cell) for cell in cells if isinstance(cell, float) and isfinite(cell)), default=0.0)


def column_decimals(cells: Sequence[Any]) -> int:
    """How many decimals the numbers of a column have.

    >>> column_decimals([100.0, 98.789]), column_decimals([100.0]), column_decimals([Spread(97.25, 0.5)])
    (2, 0, 1)
    """
    spreads = [cell for cell in cells if isinstance(cell, Spread)]
    if spreads:
        return spread_decimals(spreads)
    numbers = [cell for cell in cells if isinstance(cell, float) and isfinite(cell)]
    largest = largest_of(cells)
    # 100 gets as many decimals as 99: most numbers are percentages, and 100 % is one of them.
    decimals = max(0, SIGNIFICANT_DIGITS - ceil(log10(largest))) if largest else 0
    # No zeros that were not measured: published numbers often have one decimal.
    return min(decimals, max((needed_decimals(number, decimals) for number in numbers), default=0))


def spread_decimals(spreads: Sequence[Spread]) -> int:
    """Decimals of means and deviations: one digit of the largest deviation, and never fewer than one decimal.

    The deviation of a few seeds is not known better than that.

    >>> spread_decimals([Spread(97.2, 0.5)]), spread_decimals([Spread(0.5, 0.012), Spread(0.7, None)])
    (1, 2)
    """
    largest = max((abs(each.sd or 0.0) for each in spreads), default=0.0)
    return min(6, max(1, -floor(log10(largest)))) if largest and isfinite(largest) else 1


def format_spread(value: Any, decimals: int) -> str:
    """One cell of a column that has deviations.

    >>> format_spread(Spread(12.34, 0.5), 1), format_spread(90.0, 1), format_spread(12, 1)
    ('12.3 ± 0.5', '90.0', '12')
    """
    if isinstance(value, Spread):
        return f"{value.mean:,.{decimals}f}" + (f" ± {value.sd:.{decimals}f}" if value.sd is not None else "")
    return format_cell(value, decimals, abs(value) if isinstance(value, float) else 0.0)


def needed_decimals(value: float, most: int) -> int:
    """How many decimals a number has, when rounded to at most `most`.

    >>> needed_decimals(2.5, 4), needed_decimals(1 / 3, 4), needed_decimals(3.0, 4)
    (1, 4, 0)
    """
    return len(f"{value:.{most}f}".partition(".")[2].rstrip("0"))


def format_cell(value: Any, decimals: int, largest: float) -> str:
    """One cell as text.

    Args:
        value: number, text, `True`, `False` or `None`.
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
    if not isinstance(value, float):
        return str(value)
    if 0 < largest < 1e-3:
        return f"{value:.1e}"
    text = f"{value:.{decimals}f}"
    return f"{value:.2g}" if value and not float(text) else f"{value:,.{decimals}f}"
