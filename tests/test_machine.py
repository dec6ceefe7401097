"""What the commands that train ask of the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torchcaps._machine import keep_freed_memory

# Prints how many pages of memory 20 tensors of 40 MB cost that are made and dropped one after the other.
PAGES = """
import resource, torch
from torchcaps._machine import keep_freed_memory
if {keep}:
    assert keep_freed_memory()
for _ in range(20):
    torch.ones(10_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(10_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(*, keep: bool) -> int:
    """Pages that a fresh process is given, with or without keeping what it frees."""
    ended = subprocess.run(
        [sys.executable, "-c", PAGES.format(keep=keep)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(ended.stdout)


@pytest.mark.skipif(not keep_freed_memory(), reason="only the allocator of glibc can keep memory")
def test_freed_memory_is_used_again() -> None:
    assert pages(keep=True) < 1_000 < 100_000 < pages(keep=False)


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    assert not keep_freed_memory()
