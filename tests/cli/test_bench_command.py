import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchcaps import bench

Run = Callable[..., None]


@pytest.fixture
def _one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(*_: object, **__: object) -> Iterator[dict[str, object]]:
        yield {"routing": "em", "form": "plain", "forward ms": 1.2345}

    monkeypatch.setattr(bench, "routing_rows", rows)


@pytest.mark.usefixtures("_one_row")
def test_bench_prints_a_table_and_keeps_other_parts_of_the_file(
    run: Run, capsys: pytest.CaptureFixture
) -> None:
    Path("bench.json").write_text('{"scaling": [{"ratio": 2.0}]}')
    run("bench", "routings", "--quick", "--out", "bench.json")
    assert "1.23" in capsys.readouterr().out
    numbers = json.loads(Path("bench.json").read_text())
    assert set(numbers) == {"machine", "routings", "scaling"}
    run("bench", "routings", "--quick", "--json")
    assert set(json.loads(capsys.readouterr().out)) == {"machine", "routings"}


def test_an_unknown_part_is_an_error(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("bench", "netwroks", code=2)
    assert "did you mean 'networks'" in capsys.readouterr().err


def test_a_gpu_that_is_not_there_is_an_error(
    run: Run, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    run("bench", "--device", "cuda", code=2)
    assert "cannot use device 'cuda'" in capsys.readouterr().err
