from __future__ import annotations

from statistics import stdev

import pytest

from torchcaps.experiments.framework.combine import judged
from torchcaps.experiments.framework.measured import Measured

VALUES = (99.94, 99.98, 100.0)


@pytest.mark.parametrize(
    ("form", "expected"),
    [(".1f", "100.0 ± 0.03"), (".2f", "99.97 ± 0.03"), (".0f", "100 ± 0.03"), (".1g", "1e+02")],
)
def test_a_deviation_is_that_of_the_values_and_not_of_rounded_ones(form: str, expected: str) -> None:
    assert format(Measured(VALUES), form) == expected


def test_orders_of_magnitude_have_a_range() -> None:
    assert f"{Measured([2e-9, 4e-8]):.1g}" == "2e-09 to 4e-08"


def test_arithmetic_with_a_constant_keeps_the_deviation() -> None:
    right = Measured(VALUES)
    for number, factor in (
        (100 - right, 1),
        (right - 100, 1),
        (2 * right, 2),
        (right / 2, 0.5),
        (right + 1, 1),
    ):
        assert isinstance(number, Measured)
        assert number.sd == pytest.approx(factor * stdev(VALUES))
    assert float(100 - right) == pytest.approx(0.08 / 3)
    # The seeds of two networks differ together or not: the deviation of their difference is another one.
    assert type(right - Measured((1.0, 2.0, 3.0))) is float
    assert min(right, Measured((1.0, 2.0, 3.0))).sd == 1


def test_deviations_stay_if_seeds_name_different_rivals() -> None:
    def judge(numbers):
        best = min(("cnn", "mlp"), key=lambda name: numbers[name])
        return True, f"{numbers['caps']:.1f} %, best other: {best} with {numbers[best]:.1f} %."

    seeds = [{"caps": 1.0, "cnn": 5.0, "mlp": 6.0}, {"caps": 2.0, "cnn": 7.0, "mlp": 6.4}]
    assert judged(judge, seeds)[0].sentence == "1.5 ± 0.7 %, best other: cnn with 6.0 ± 1.4 %."
