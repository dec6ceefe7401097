"""How times are measured: the best of several runs, beside a matrix product measured at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

from torchcaps import kernels
from torchcaps._machine import processor_name

Row = dict[str, object]


def seconds(run: Callable[[], object], budget: float = 2.0) -> float:
    """The shortest time of one call, which other processes disturb the least.

    Args:
        run: the call to measure.
        budget: seconds to repeat it for; at least 3 and at most 50 times.

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
    """Floating-point operations per second of a float32 matrix product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / seconds(lambda: a @ b, 0.5)


def machine() -> Row:
    """Hardware and software that the numbers were measured on.

    >>> sorted(machine())
    ['cores', 'cpu', 'instruction set', 'kernels', 'threads', 'torch']
    """
    status = kernels.status()
    return {
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "instruction set": status.instruction_set,
        "kernels": status.reason,
    }
