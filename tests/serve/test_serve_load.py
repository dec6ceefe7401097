"""Many clients at once; slow, because it takes half a minute."""

import asyncio

import pytest
from serve_load import load

from support.serve_process import serve_process


@pytest.mark.slow
def test_fifty_clients_for_thirty_seconds() -> None:
    with serve_process(("capsnet_small-mnist", "--port", "0")) as (process, port):
        asyncio.run(load(port, process.pid, clients=50, seconds=5))  # until memory use is stable
        result = asyncio.run(load(port, process.pid, clients=50, seconds=30))
    assert result["failures"] == []
    assert result["images_per_batch"] > 2, result
    assert result["memory_mb"][-1] <= 1.1 * result["memory_mb"][0], result
