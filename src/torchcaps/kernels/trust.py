"""Whether the kernels for GPUs are trusted on a device: the first use compares them with the plain form.

The comparison itself needs routings, which are above the kernels: `torchcaps.routing` registers it here.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any

import torch

from torchcaps._cache import cache_dir
from torchcaps._compiling import constant_result
from torchcaps._files import write_atomically


@dataclass(frozen=True)
class Comparison:
    """One tensor of a kernel beside that of the plain form in float64.

    Attributes:
        case: which routing and geometry.
        tensor: which output, or gradient of which input; empty if the kernel failed.
        difference: the largest one, relative to the largest number of the plain form.
        allowed: the largest difference that rounding explains.
        error: why there is nothing to compare, if the kernel failed.
    """

    case: str
    tensor: str = ""
    difference: float = 0.0
    allowed: float = 0.0
    error: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the difference is one of rounding; a NaN is not."""
        return not self.error and self.difference <= self.allowed

    def __str__(self) -> str:
        if self.error:
            return f"{self.case}: {self.error}"
        return f"{self.case}: {self.tensor} differs by {self.difference:.1e} ({self.allowed:.1e} allowed)"


Check = Callable[[torch.device], "list[Comparison]"]

_check: Check | None = None
_reasons: dict[str, str] = {}
_lock = RLock()


def register_check(check: Check) -> None:
    """Compare by this function before the kernels are used on a device."""
    global _check
    _check = check


@constant_result
def distrust(device: torch.device) -> str:
    """Why the kernels must not be used on a device; empty if they agree with the plain form.

    The first call for a device reads the result of an earlier process, or compares and keeps the result in a
    file. While a CUDA graph is captured nothing can be compared, and kernels that were not compared are used.
    """
    name = str(device)
    with _lock:
        if name not in _reasons and _check is not None and is_present(device):
            # The check uses the kernels: its own calls find them trusted. Other threads wait at the lock.
            _reasons[name] = ""
            _reasons[name] = _verdict(device, _check)
        return _reasons.get(name, "")


def is_present(device: torch.device) -> bool:
    """Whether kernels can run on this device now: it exists, and no CUDA graph is captured."""
    return torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing()


def _verdict(device: torch.device, check: Check) -> str:
    facts = identity(device)
    file = report_path(facts)
    found = read_report(file)
    if found is None:
        found = check(device)
        # A folder that cannot be written costs a check per process, and no training.
        with suppress(OSError):
            write_report(file, facts, found)
    wrong = [each for each in found if not each.agrees]
    if not wrong:
        return ""
    reason = f"the kernels differ from the plain form on {facts['device']}: {wrong[0]}"
    warnings.warn(
        f"{reason}. Routing on this device uses the plain form. All differences are in {file}: please report "
        "them with the output of `torchcaps doctor`. Delete the file to compare again.",
        RuntimeWarning,
        stacklevel=2,
    )
    return reason


def identity(device: torch.device) -> dict[str, str]:
    """What the result of a comparison depends on: device, versions, and the source of the kernels."""
    from torchcaps import __version__

    source = hashlib.sha256()
    for path in sorted((Path(__file__).parent / "triton").glob("*.py")):
        source.update(path.read_bytes())
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "torch": torch.__version__,
        "triton": import_module("triton").__version__ if find_spec("triton") else "",
        "torchcaps": __version__,
        "kernels": source.hexdigest()[:16],
    }


def report_path(facts: dict[str, str]) -> Path:
    """The file with the result for a device and versions.

    >>> report_path({"device": "NVIDIA A100", "torch": "2.13"}).name.rpartition("-")[0]
    'NVIDIA-A100'
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", facts["device"]).strip("-")
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return cache_dir() / "self-check" / f"{name}-{digest[:8]}.json"


def write_report(path: Path, facts: dict[str, str], found: list[Comparison]) -> None:
    """Write what was compared, what differed, and on what."""
    rows = [asdict(each) | {"agrees": each.agrees} for each in found]
    content: dict[str, Any] = {**facts, "agrees": all(each.agrees for each in found), "comparisons": rows}
    write_atomically(path, [json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"])


def read_report(path: Path) -> list[Comparison] | None:
    """What an earlier process found; `None` if there is no such file, or not a whole one."""
    try:
        rows = json.loads(path.read_bytes())["comparisons"]
        return [Comparison(**{k: v for k, v in row.items() if k != "agrees"}) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None
