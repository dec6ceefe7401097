"""A mean over seeds that is written with its deviation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, log10
from statistics import mean, stdev


class Measured(float):
    """The mean of a number over seeds; in a sentence it is written as `mean ± standard deviation`.

    It is a float, so a function that judges the number of one seed judges the mean of several, and its
    sentence then has the deviations. Sums and products with constants keep the deviation. What is computed
    in any other way, such as the difference of two means, is a plain number.

    Args:
        values: one for each seed.

    Example:
        >>> error = Measured([3.0, 5.0])
        >>> error < 5, f"{error:.1f} %", f"{100 - error:.0f} %", f"{2 * error:.1f}"
        (True, '4.0 ± 1.4 %', '96 ± 1 %', '8.0 ± 2.8')
        >>> f"{Measured([99.98, 100.0]):.1f}", f"{Measured([7.0, 7.0]):.1f}", f"{error - error:.1f}"
        ('100.0 ± 0.01', '7.0', '0.0')
    """

    values: tuple[float, ...]

    def __new__(cls, values: Sequence[float]) -> Measured:
        """The mean of the values."""
        measured = super().__new__(cls, mean(values))
        measured.values = tuple(map(float, values))
        return measured

    @property
    def sd(self) -> float:
        """The standard deviation over seeds; 0 for a single one."""
        return stdev(self.values) if len(self.values) > 1 else 0.0

    def __format__(self, form: str) -> str:
        center = format(float(self), form)
        if not self.sd:
            return center
        if form[-1:] in ("e", "g"):
            # A deviation says nothing about orders of magnitude.
            lowest, highest = (format(end(self.values), form) for end in (min, max))
            return center if lowest == highest else f"{lowest} to {highest}"
        decimals = len(center.partition(".")[2].rstrip("%"))
        # A deviation that would be rounded to 0 keeps one digit.
        decimals = max(decimals, -floor(log10(self.sd))) if self.sd < 0.5 * 10**-decimals else decimals
        return f"{center} ± {self.sd:.{decimals}f}"

    def __add__(self, other: float) -> float:
        return self._with(other, float.__add__)

    def __radd__(self, other: float) -> float:
        return self._with(other, float.__radd__)

    def __sub__(self, other: float) -> float:
        return self._with(other, float.__sub__)

    def __rsub__(self, other: float) -> float:
        return self._with(other, float.__rsub__)

    def __mul__(self, other: float) -> float:
        return self._with(other, float.__mul__)

    def __rmul__(self, other: float) -> float:
        return self._with(other, float.__rmul__)

    def __truediv__(self, other: float) -> float:
        return self._with(other, float.__truediv__)

    def _with(self, other: float, operation: Callable[[float, float], float]) -> float:
        if isinstance(other, Measured):
            return operation(float(self), float(other))
        return Measured([operation(value, other) for value in self.values])
