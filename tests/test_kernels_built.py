from __future__ import annotations

import shutil

import pytest

from torchcaps import kernels


def test_where_there_is_a_compiler_the_kernels_were_built() -> None:
    """Without this, a broken build would only show as skipped tests, and every check would stay green."""
    if not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler here")
    assert kernels.status().built, kernels.status().reason
