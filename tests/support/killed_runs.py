"""Trains in child processes that kill themselves with SIGKILL, and resumes until a run is whole.

Usage: killed_runs.py FOLDER SCENARIOS, where SCENARIOS is JSON, name → {"save_every", "kills": [[kind, n]]}.
A kill is before the n-th `step` of the optimizer of that process, before its n-th `replace` of a file, or
`after` n seconds.
Forked before any tensor is touched, each child costs a second instead of an interpreter's start.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import accelerate  # noqa: F401 (what training imports when it needs it, once for all children)
import sklearn.datasets  # noqa: F401
import torch
import torch._dynamo

from support.tiny_runs import tiny_recipe
from torchcaps.training import engine, run, train


def die_before(owner: Any, name: str, count: int) -> None:
    """Let the `count`-th call of a function kill this process."""
    real, calls = getattr(owner, name), 0

    def wrapped(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(owner, name, wrapped)


def session(folder: Path, save_every: float, kill: list[Any] | None) -> bool:
    """One process's work on a run; returns whether it was killed."""
    child = os.fork()
    if child:
        if kill is not None and kill[0] == "after":
            time.sleep(kill[1])
            os.kill(child, signal.SIGKILL)  # without effect if it has ended
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            sys.exit(f"{folder.name}: a session failed")
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    try:
        if kill is not None and kill[0] != "after":
            owner: Any = os if kill[0] == "replace" else torch.optim.Adam
            die_before(owner, kill[0], kill[1])
        train(tiny_recipe(), folder, resume=True, save_every=save_every)
    except BaseException as fault:
        print(f"{folder.name}: {fault!r}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def speed_up() -> None:
    """Make runs cheap, and let records fall inside epochs too."""
    engine.RECORD_EVERY = 4
    run.open_events = lambda folder, step: None  # type: ignore[assignment]  # a second saved per child


if __name__ == "__main__":
    speed_up()
    root = Path(sys.argv[1])
    deaths = {}
    for name, scenario in json.loads(sys.argv[2]).items():
        deaths[name] = [session(root / name, scenario["save_every"], kill) for kill in scenario["kills"]]
        session(root / name, scenario["save_every"], None)
    print(json.dumps(deaths))
