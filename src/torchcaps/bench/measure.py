"""How times are measured: the best of several runs, beside a matrix product measured at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from torchcaps import kernels
from torchcaps._machine import processor_name

Row = dict[str, object]


def check_device(name: str) -> torch.device:
    """The device of this name; an error that says why if there is none.

    >>> check_device("cpu")
    device(type='cpu')
    """
    device = torch.device(name)
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:1', got {name!r}")
    if device.type == "cuda" and not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = "it finds no GPU or no driver" if built else "it was built without CUDA and ROCm"
        raise ValueError(f"PyTorch {torch.__version__} cannot use device {name!r}: {why}; use 'cpu'")
    return device


def wait_for(device: torch.device | str) -> None:
    """Wait until the device has done all that was started; a CPU always has."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def seconds(run: Callable[[], object], budget: float = 2.0, device: torch.device | str = "cpu") -> float:
    """The shortest time of one call, which other processes disturb the least.

    Args:
        run: the call to measure. It must not wait for the device itself.
        budget: seconds to repeat it for; at least 3 and at most 50 times.
        device: where it runs; the time ends when this device is done.

    >>> seconds(lambda: sum(range(1000)), budget=0.001) > 0
    True
    """
    run()
    wait_for(device)
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 50):
        start = time.perf_counter()
        run()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return min(times)


def gemm_rate(device: torch.device | str = "cpu") -> float:
    """Floating-point operations per second of a float32 matrix product."""
    # Large enough that a GPU has work for all its parts.
    size = 1024 if torch.device(device).type == "cpu" else 4096
    a, b = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    return 2 * size**3 / seconds(lambda: a @ b, 0.5, device)


def peak_memory(device: torch.device | str = "cpu") -> float:
    """The peak memory of this process, in MB; on a GPU, that of its tensors.

    On Linux, `ru_maxrss` of a child includes its parent's memory, so VmHWM is read there.

    >>> peak_memory() > 10
    True
    """
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine(device: torch.device | str = "cpu") -> Row:
    """Hardware and software that the numbers were measured on.

    >>> sorted(machine())
    ['cores', 'cpu', 'instruction set', 'kernels', 'threads', 'torch']
    """
    status = kernels.status()
    gpu: Row = {}
    if torch.device(device).type == "cuda":
        gpu = {"gpu": torch.cuda.get_device_name(device), "kernels on the gpu": status.gpu}
    return {
        **gpu,
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "instruction set": status.instruction_set,
        "kernels": status.reason,
    }
