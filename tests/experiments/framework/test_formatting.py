from torchcaps.experiments.framework.formatting import format_column


def test_column_shows_numbers_of_very_different_size() -> None:
    assert format_column([12345.678, 0.5, -3.2]) == ["12,346", "0.5", "-3"]
    assert format_column([4e-5, 2e-7, 0.0]) == ["4.0e-05", "2.0e-07", "0.0e+00"]
    assert format_column([float("nan"), float("inf"), 1.25]) == ["nan", "inf", "1.25"]
    assert format_column([0.0, 0.0]) == ["0", "0"]
    assert format_column([True, "x", None]) == ["yes", "x", "–"]
    assert format_column([]) == []
