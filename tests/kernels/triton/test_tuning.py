"""Block sizes that are measured: which one is taken, when, and for how long it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torchcaps.kernels import trust
from torchcaps.kernels.triton import launch, tuning

DEVICE = torch.device("cpu")
FASTEST = "cuda:80 splits=4"


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take the CPU for a GPU, on which one row of block sizes is the fastest."""
    monkeypatch.setenv("TORCHCAPS_CACHE", str(tmp_path))
    monkeypatch.setattr(launch, "interpreted", lambda: False)
    monkeypatch.setattr(trust, "is_present", lambda device: True)
    monkeypatch.setattr(tuning, "_chosen", {})
    monkeypatch.setattr(tuning, "seconds", lambda run, device: run())


def choose(calls: list[str], size: int = 3) -> str:
    def call(name: str) -> float:
        calls.append(name)
        return 1.0 if name == FASTEST else 2.0

    return tuning.choose("em_forward", (torch.zeros(2, size), None, 0.5), call)


def test_the_table_is_used_unless_asked_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHCAPS_TUNE", raising=False)
    calls: list[str] = []
    assert choose(calls) == launch.DEFAULT
    assert not calls


def test_the_fastest_is_kept_for_these_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_TUNE", "on")
    calls: list[str] = []
    assert choose(calls) == FASTEST
    assert calls == list(tuning.candidates(launch.DEFAULT).values())
    # Another process, that does not measure.
    monkeypatch.delenv("TORCHCAPS_TUNE")
    monkeypatch.setattr(tuning, "_chosen", {})
    assert choose([]) == FASTEST
    assert choose([], size=4) == launch.DEFAULT


def test_a_damaged_file_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    path = tuning.path_of(DEVICE)
    path.parent.mkdir()
    path.write_text("[")
    assert choose([]) == launch.DEFAULT
    path.write_text('{"em_forward 2x3": "no such row"}')
    monkeypatch.setattr(tuning, "_chosen", {})
    assert choose([]) == launch.DEFAULT


def test_a_row_that_fails_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert tuning.seconds(lambda: 1 / 0, DEVICE) == float("inf")


def test_rows_have_no_more_numbers_per_thread_than_the_architecture() -> None:
    for name in ("cuda:80", "cuda:90", "hip:gfx942"):
        for row in tuning.candidates(name).values():
            assert launch.TABLES[row].numbers <= launch.TABLES[name].numbers
