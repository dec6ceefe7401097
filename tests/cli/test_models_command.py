from collections.abc import Callable

import pytest

Run = Callable[..., None]


def test_models_are_listed_with_their_parameters(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("models", "--classes", "5", "--channels", "2", "--size", "32")
    lines = capsys.readouterr().out.splitlines()
    small, *_ = [line.split() for line in lines if line.startswith("matrix_capsnet_small")]
    assert small[1] == "68,618"
