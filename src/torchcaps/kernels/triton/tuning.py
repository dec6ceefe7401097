"""Block sizes measured on this machine, in place of those of the table; nothing here imports triton.

With `TORCHCAPS_TUNE=on`, the first call of an operator with new shapes on a GPU times a few rows of block
sizes and keeps the fastest in a file; compiling them takes up to a minute per layer. Later processes use what
is in the file, with or without the variable. Other block sizes add in another order, so results differ in
their last digits; with one file they are always the same.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from torchcaps._cache import cache_dir
from torchcaps._files import write_atomically
from torchcaps.kernels import trust
from torchcaps.kernels.triton import launch as launching
from torchcaps.kernels.triton.launch import TABLES

TUNE_VARIABLE = "TORCHCAPS_TUNE"
REPEATS = 5

Operator = TypeVar("Operator", bound=Callable[..., Any])
_chosen: dict[Path, dict[str, str]] = {}


def tuned(operator: Operator) -> Operator:
    """Let an operator use the block sizes that were measured for its shapes, if there are some."""

    @functools.wraps(operator)
    def run(*arguments: Any, architecture: str | None = None, **options: Any) -> Any:
        def call(name: str) -> Any:
            return operator(*arguments, architecture=name, **options)

        return call(architecture or choose(operator.__name__, arguments, call))

    return run  # type: ignore[return-value]


def candidates(name: str) -> dict[str, str]:
    """Rows of block sizes to try, by what is different; the first is that of the architecture.

    None has more numbers per thread than the row itself: its kernels would spill registers.

    >>> list(candidates("cuda:80"))
    ['', 'numbers=4', 'parents=16', 'splits=4', 'splits=16']
    """
    found = {"": name}
    for change in ({"numbers": 4}, {"parents": 16}, {"splits": 4}, {"splits": 16}):
        label = ",".join(f"{key}={value}" for key, value in change.items())
        row = f"{name} {label}"
        TABLES.setdefault(row, replace(TABLES[name], **change))
        found[label] = row
    return found


def choose(operator: str, arguments: tuple[Any, ...], call: Callable[[str], Any]) -> str:
    """Name of the row of block sizes for a call.

    Args:
        operator: its name.
        arguments: of the operator; the shapes of the tensors count.
        call: calls the operator with a row of that name.
    """
    device = next(value.device for value in arguments if isinstance(value, Tensor))
    name = launching.architecture(device)
    if launching.interpreted() or not trust.is_present(device):
        return name
    rows = candidates(name)
    path = path_of(device)
    known = _chosen.setdefault(path, read(path))
    key = operator + " " + " ".join(
        "x".join(map(str, value.shape)) for value in arguments if isinstance(value, Tensor)
    )  # fmt: skip
    if key not in known and os.environ.get(TUNE_VARIABLE) == "on":
        times = {label: seconds(functools.partial(call, row), device) for label, row in rows.items()}
        known[key] = min(times, key=lambda label: times[label])
        with suppress(OSError):
            write_atomically(path, [json.dumps(known, indent=1).encode()])
    return rows.get(known.get(key, ""), name)


def seconds(run: Callable[[], Any], device: torch.device) -> float:
    """The shortest time of one call, on a GPU; infinite if it cannot be compiled or launched."""
    try:
        run()
        times = []
        for _ in range(REPEATS):
            torch.cuda.synchronize(device)
            start = time.perf_counter()
            run()
            torch.cuda.synchronize(device)
            times.append(time.perf_counter() - start)
        return min(times)
    except Exception:  # Triton raises its own types, and another row will do
        return float("inf")


def path_of(device: torch.device) -> Path:
    """The file with what was measured on this kind of device, with these versions."""
    return cache_dir() / "block-sizes" / trust.report_path(trust.identity(device)).name


def read(path: Path) -> dict[str, str]:
    """What was measured before; nothing if there is no file, or not a whole one."""
    try:
        found = json.loads(path.read_bytes())
        return {str(key): str(value) for key, value in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}
