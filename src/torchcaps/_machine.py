from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

# Options of glibc's mallopt, and values: no allocation is a mapping of its own, free memory at the end of the
# heap is returned only beyond 2 GB, and the heap grows by 64 MB at a time.
M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD = -4, -1, -2
KEEP = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 64 * 2**20}


def processor_name() -> str:
    """The name of the processor, or of its architecture where the system does not give one.

    >>> processor_name() != ""
    True
    """
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def keep_freed_memory() -> bool:
    """Let the process keep memory that it frees, for its next allocation; returns whether it can.

    The allocator of Linux gives each large block back to the system. Every step of a training then gets new
    pages for its activations, which the kernel must clear first: a fifth of the time of a small CNN on a CPU.
    No number changes. For programs that train, not for servers, whose memory should fall again.

    >>> keep_freed_memory() in (True, False)
    True
    """
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(option, value) == 1 for option, value in KEEP.items())
