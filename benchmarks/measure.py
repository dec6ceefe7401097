"""How the benchmarks measure: best of several runs, held against the matrix product of the same moment."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch

from torchcaps import kernels


def seconds(run: Callable[[], object], budget: float = 2.0) -> float:
    """The best time of one call: what the machine can do when nothing else disturbs it."""
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


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next(
            (line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line),
            cpu,
        )
    status = kernels.status()
    return {
        "cpu": cpu,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "instruction_set": status.instruction_set,
        "kernels": status.reason,
    }


def table(rows: list[dict[str, object]]) -> str:
    """Rows of equal keys as a Markdown table."""
    keys = list(rows[0])
    cells = [[f"{row[k]:.3g}" if isinstance(row[k], float) else str(row[k]) for k in keys] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [keys, ["---"] * len(keys), *cells])
