from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

import torchcaps


def describe_environment() -> dict[str, Any]:
    """Versions, machine, command and git state: what one asks later of a run.

    >>> sorted(describe_environment())[:3]
    ['accelerate', 'command', 'device']
    """
    import accelerate

    return {
        "started": now(),
        "command": sys.argv,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchcaps": torchcaps.__version__,
        "accelerate": accelerate.__version__,
        "platform": platform.platform(),
        "processor": processor_name(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "git": git_state(),
    }


def now() -> str:
    """The time, in one zone for all."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def git_state() -> dict[str, Any] | None:
    """Commit of the checkout, and whether tracked files were changed; `None` for an installed copy."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git(root, "status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


def processor_name() -> str:
    """The processor as its maker calls it, where the system says so."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
