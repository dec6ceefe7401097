"""Runs the tests of `interpreted` in a process in which Triton interprets its kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("interpreted")


def run_tests(marker: str) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marker, str(FOLDER)]
    result = subprocess.run(
        command, env=environment, text=True, capture_output=True, cwd=FOLDER.parents[3], timeout=3600
    )
    assert result.returncode == 0, result.stdout[-10_000:] + result.stderr[-2_000:]


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="already in the interpreter")
def test_few_cases() -> None:
    run_tests("not slow")


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="already in the interpreter")
def test_all_cases() -> None:
    run_tests("slow")
