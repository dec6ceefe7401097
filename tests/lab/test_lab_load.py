"""Latency and memory under load; slow tests, because the limits assume an idle machine."""

import asyncio
import time

import pytest
from lab_load import load
from starlette.testclient import TestClient

from support.lab_process import lab_process


@pytest.mark.slow
def test_fifty_users_can_draw_at_once() -> None:
    with lab_process() as (process, port):
        asyncio.run(load(port, process.pid, clients=5, seconds=3))  # until memory use is stable
        result = asyncio.run(load(port, process.pid, clients=50, seconds=30))
    assert result["failures"] == []
    assert result["p95_s"] <= 1, result
    assert result["memory_mb"][-1] <= 1.1 * result["memory_mb"][0], result


@pytest.mark.slow
def test_tweak_responds_within_50_ms(client: TestClient) -> None:
    latencies = []
    for turn in range(50):
        start = time.perf_counter()
        client.post("/api/tweak", json={"pose": [turn / 100] * 16, "target": 3}).raise_for_status()
        latencies.append(time.perf_counter() - start)
    assert sorted(latencies)[45] <= 0.05


@pytest.mark.slow
def test_parts_and_wholes_is_read_20_times_per_second(client: TestClient) -> None:
    latencies = []
    for turn in range(50):
        parts = [
            {"kind": kind, "x": 0.5 * kind - 0.5, "y": 0, "angle": turn, "scale": 0.25} for kind in (0, 1, 2)
        ]
        start = time.perf_counter()
        client.post("/api/parts", json={"parts": parts}).raise_for_status()
        latencies.append(time.perf_counter() - start)
    assert sorted(latencies)[45] <= 0.05
