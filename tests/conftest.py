from collections.abc import Iterator

import pytest

from torchcaps import kernels


@pytest.fixture(scope="module")
def plain() -> Iterator[None]:
    """Route in the plain form, which is the specification; kernels are held against it in their own tests."""
    with kernels.disabled():
        yield
