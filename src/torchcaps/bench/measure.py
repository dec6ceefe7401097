"""How a time is taken: the best of several runs, held against the matrix product of the same moment."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch

from torchcaps import kernels

Row = dict[str, object]


def seconds(run: Callable[[], object], budget: float = 2.0) -> float:
    """The best time of one call: what the machine can do when nothing else disturbs it.

    >>> seconds(lambda: sum(range(1000)), budget=0.001) > 0
    True
    """
    run()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 50):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def gemm_rate(size: int = 1024) -> float:
    """Floating-point operations per second of a float32 matrix product, now."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / seconds(lambda: a @ b, 0.5)


def machine() -> Row:
    """What the figures were measured on.

    >>> sorted(machine())
    ['cores', 'cpu', 'instruction set', 'kernels', 'threads', 'torch']
    """
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = (
            line.split(":")[1] for line in info.read_text().splitlines() if line.startswith("model name")
        )
        cpu = next(names, cpu).strip()
    status = kernels.status()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "instruction set": status.instruction_set,
        "kernels": status.reason,
    }
