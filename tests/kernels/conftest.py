from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from torchcaps import kernels
from torchcaps.kernels import dispatch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # In CI a compiler that fails must fail the tests, not skip them.
    if kernels.status().built or os.environ.get("CI"):
        return
    for item in items:
        if "tests/kernels" in str(item.path) and "needs_build" in item.fixturenames:  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.skip(reason=kernels.status().reason))


@pytest.fixture(autouse=True)
def needs_build() -> Iterator[None]:
    """Enable kernels, also if the environment disables them, and seed the random numbers."""
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    # Threads spin while they wait for the next operator, which makes small operators slow on a busy machine.
    torch.set_num_threads(1)
    with kernels.enabled():
        yield
    torch.set_num_threads(threads)


@pytest.fixture(params=["avx512", "avx2", "baseline"])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set that this processor has."""
    native = dispatch.compiled()
    if request.param not in native.available():
        pytest.skip(f"this processor has no {request.param}")
    before = native.instruction_set()
    native.use(request.param)
    yield request.param
    native.use(before)
