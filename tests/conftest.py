from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from torchcaps import kernels

# "quick" takes the same few examples every time, "brief" (make quick) two; "slow" (make test-slow) takes many
# random ones and prints how to repeat a failure. None judges speed, since the machine may be busy.
settings.register_profile("quick", max_examples=4, deadline=None, derandomize=True, database=None)
settings.register_profile("brief", parent=settings.get_profile("quick"), max_examples=2)
settings.register_profile(
    "slow",
    max_examples=200,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
if profile := os.environ.get("HYPOTHESIS_PROFILE"):
    settings.load_profile(profile)


@pytest.fixture(scope="module")
def plain() -> Iterator[None]:
    """Route in the plain form, which is the specification; tests/kernels compares the kernels with it."""
    with kernels.disabled():
        yield
