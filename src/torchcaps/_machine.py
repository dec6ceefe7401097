from __future__ import annotations

import platform
from pathlib import Path


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
