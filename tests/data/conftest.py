from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from torchcaps.data.imageset import ImageSet
from torchcaps.errors import DataError

# The same examples every time, and no verdict about speed on a busy machine.
settings.register_profile("data", max_examples=60, deadline=None, derandomize=True)
if not os.environ.get("HYPOTHESIS_PROFILE"):
    settings.load_profile("data")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no data directory, and no way to the network."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TORCHCAPS_CACHE", str(folder))
    monkeypatch.setenv("TORCHCAPS_OFFLINE", "1")
    monkeypatch.delenv("TORCHCAPS_DATA", raising=False)
    return folder


@pytest.fixture(scope="session")
def mnist_test() -> ImageSet:
    """The real MNIST test images, where TORCHCAPS_DATA has them."""
    from torchcaps.data import load

    if not os.environ.get("TORCHCAPS_DATA"):
        pytest.skip("TORCHCAPS_DATA is not set")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHCAPS_OFFLINE", "1")
        try:
            return load("mnist", "test")
        except DataError as fault:
            pytest.skip(f"no MNIST in TORCHCAPS_DATA: {fault}")
