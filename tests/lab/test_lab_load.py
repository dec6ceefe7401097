"""How fast it is, and that it stays so; figures of a quiet machine, so not for every run."""

import asyncio
import runpy
import time
from pathlib import Path

import pytest
from lab_process import lab_process
from starlette.testclient import TestClient

LOAD = Path(__file__).parents[2] / "benchmarks" / "lab_load.py"


@pytest.mark.slow
def test_fifty_people_can_draw_at_once() -> None:
    load = runpy.run_path(str(LOAD))["load"]
    with lab_process() as (process, port):
        asyncio.run(load(port, process.pid, clients=5, seconds=3))  # until memory has settled
        found = asyncio.run(load(port, process.pid, clients=50, seconds=30))
    assert found["failures"] == []
    assert found["p95_s"] <= 1, found
    assert found["memory_mb"][-1] <= 1.1 * found["memory_mb"][0], found


@pytest.mark.slow
def test_a_turned_slider_is_followed_within_50_ms(client: TestClient) -> None:
    waits = []
    for turn in range(50):
        begun = time.perf_counter()
        client.post("/api/tweak", json={"pose": [turn / 100] * 16, "target": 3}).raise_for_status()
        waits.append(time.perf_counter() - begun)
    assert sorted(waits)[45] <= 0.05
