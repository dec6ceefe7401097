from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from torchcaps import kernels


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Where changes are judged, a compiler that broke must not pass for a machine that has none.
    if kernels.status().built or os.environ.get("CI"):
        return
    for item in items:
        if "tests/kernels" in str(item.path) and "needs_build" in item.fixturenames:  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.skip(reason=kernels.status().reason))


@pytest.fixture(autouse=True)
def needs_build() -> Iterator[None]:
    """Kernels on, whatever the environment says, and the same numbers in every run."""
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    # Threads wait in a spin for the next operator, which small operators on a busy machine pay for.
    torch.set_num_threads(1)
    with kernels.enabled():
        yield
    torch.set_num_threads(threads)


@pytest.fixture(params=["avx512", "avx2", "baseline"])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every set that this processor has, one after the other."""
    from torchcaps.kernels.dispatch import native

    assert native is not None
    if request.param not in native.available():
        pytest.skip(f"no {request.param} here")
    before = native.instruction_set()
    native.use(request.param)
    yield request.param
    native.use(before)
