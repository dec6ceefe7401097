"""Measuring on a GPU, without one."""

from __future__ import annotations

import pytest
import torch

from torchcaps.bench import check_device
from torchcaps.bench.measure import machine, peak_memory, seconds


def test_a_missing_gpu_is_an_error_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"cannot use device 'cuda': it .*; use 'cpu'"):
        check_device("cuda")
    with pytest.raises(ValueError, match="must be 'cpu', 'cuda'"):
        check_device("meta")


def test_the_device_is_waited_for_around_each_call_and_not_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: events.append("wait"))
    seconds(lambda: events.append("run"), 0.0, "cuda")
    assert events == ["run", "wait"] * 4
    events.clear()
    seconds(lambda: events.append("run"), 0.0)
    assert events == ["run"] * 4


def test_memory_and_name_are_those_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A100")
    assert peak_memory("cuda") == 3.0
    assert machine("cuda")["gpu"] == "A100"
