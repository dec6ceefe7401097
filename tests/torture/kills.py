"""Training that is killed with SIGKILL at random moments, resumed, and compared bit by bit.

Usage: kills.py FOLDER KILLS SEED. Prints one JSON object per line: each kill, and each run that was resumed
until it ended.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from support.killed_runs import session, speed_up
from support.tiny_runs import child_environment, records_of, weights_of

ALWAYS, SELDOM = 0.0, 1e9
KILLS_PER_RUN = 6


def faults(whole: Path, resumed: Path) -> list[str]:
    """What differs between two runs that have ended."""
    found = []
    for file in ("last", "best", "state"):
        first, second = weights_of(whole, file), weights_of(resumed, file)
        if first.keys() != second.keys():
            found.append(f"{file}: other tensors")
        else:
            found += [f"{file}: {key}" for key in first if not torch.equal(first[key], second[key])]
    if records_of(whole) != records_of(resumed):
        found.append("metrics.jsonl")
    return found


def main(root: Path, kills: int, seed: int) -> None:
    """Kill and resume runs until `kills` kills have struck."""
    speed_up()
    choose = random.Random(seed)
    begin = time.monotonic()
    session(root / "whole", ALWAYS, None)
    seconds = time.monotonic() - begin
    struck = number = 0
    while struck < kills:
        number += 1
        folder = root / f"run-{number}"
        save_every = choose.choice((ALWAYS, seconds / 10, SELDOM))
        for _ in range(KILLS_PER_RUN):
            if struck == kills or not session(folder, save_every, ["after", choose.uniform(0, seconds / 2)]):
                break
            struck += 1
            print(json.dumps({"killed": folder.name}), flush=True)
        session(folder, save_every, None)
        print(json.dumps({"run": folder.name, "faults": faults(root / "whole", folder)}), flush=True)


def run(seed: int, kills: int, progress: Callable[[int], None]) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Counts, and what went wrong."""
    total: Counter[str] = Counter()
    kept: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, __file__, folder, str(kills), str(seed)],
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            event = json.loads(line)
            if "killed" in event:
                total["kills"] += 1
                progress(1)
            elif event["faults"]:
                total["failures"] += 1
                kept.append(event)
            else:
                total["runs"] += 1
        errors = process.stderr.read()
        if process.wait():
            total["exceptions"] += 1
            kept.append({"error": errors[-2000:]})
    return total, kept


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
