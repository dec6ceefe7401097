from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

import torchcaps
from torchcaps._extras import require
from torchcaps._files import replaced_on_success
from torchcaps._machine import processor_name
from torchcaps.training.recipe import Recipe


class Run:
    """A run's folder.

    | file | holds |
    |---|---|
    | `recipe.toml` | the effective recipe |
    | `environment.json` | versions, machine, git state and command of every session |
    | `metrics.jsonl` | one line per record, in order |
    | `tensorboard/` | the same as events, where tensorboard is installed |
    | `state.safetensors` | everything needed to go on |
    | `last.safetensors`, `best.safetensors` | models to use |
    | `epoch-1.safetensors` … | the model after each epoch, where they are kept |
    | `result.json` | what came of it, written at the end |
    | `failed.safetensors` | weights and batch of a step that was not finite |

    Model files are written before the state that speaks of them, so what the state says exists, exists.

    Args:
        path: the folder; made if it is not there.
        recipe: what is trained.
        resume: go on with the run in the folder, if there is one.
        main: whether this process is the one that writes.
    """

    def __init__(self, path: str | Path, recipe: Recipe, *, resume: bool = False, main: bool = True) -> None:
        self.path = Path(path)
        self.recipe = recipe
        self.main = main
        self.state, self.failed = self.path / "state.safetensors", self.path / "failed.safetensors"
        self.last, self.best = self.path / "last.safetensors", self.path / "best.safetensors"
        self.metrics = self.path / "metrics.jsonl"
        self.events: Any = None
        self.resumes = resume and self.state.is_file()
        if main:
            self._open(resume)

    def _open(self, resume: bool) -> None:
        known = self.path / "recipe.toml"
        if known.is_file():
            if not resume:
                raise ValueError(
                    f"{self.path} holds a run already: go on with --resume, or give another --out"
                )
            check_same_subject(Recipe.from_file(known), self.recipe)
        self.path.mkdir(parents=True, exist_ok=True)
        for abandoned in self.path.glob(".*.tmp"):
            abandoned.unlink()
        self._write("recipe.toml", self.recipe.to_toml())
        sessions = [*self.sessions(), describe_environment()]
        self._write("environment.json", json.dumps(sessions, indent=2) + "\n")
        if not self.resumes:
            self.keep_records(0, 0)

    def sessions(self) -> list[dict[str, Any]]:
        """The environment of every session so far."""
        return sessions_of(self.path)

    def of_epoch(self, epoch: int) -> Path:
        """Where the model of an epoch is kept, if they are; epochs count from 1."""
        return self.path / f"epoch-{epoch}.safetensors"

    def keep_records(self, count: int, step: int) -> None:
        """Forget the records after the first `count`: a resumed run will write them again."""
        if not self.main:
            return
        lines = self.metrics.read_text().splitlines()[:count] if self.metrics.is_file() else []
        self._write("metrics.jsonl", "".join(f"{line}\n" for line in lines))
        self.events = open_events(self.path / "tensorboard", step)

    def record(self, numbers: dict[str, Any]) -> None:
        """Add a line to the metrics, on the disk before this returns."""
        if not self.main:
            return
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(numbers) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if self.events is not None:
            for name, value in flat(numbers):
                self.events.add_scalar(name, value, numbers["step"])
            self.events.flush()

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result, with a digest of the weights it is about."""
        if self.main:
            self._write("result.json", json.dumps(result, indent=2) + "\n")

    def _write(self, name: str, text: str) -> None:
        with replaced_on_success(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def sessions_of(run: Path) -> list[dict[str, Any]]:
    """The environment of every session of the run in a folder."""
    path = run / "environment.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def check_same_subject(before: Recipe, now: Recipe) -> None:
    """A run keeps its model, its data and its seed; the rest may be changed when it goes on."""
    for part in ("model", "data", "seed"):
        if getattr(before, part) != getattr(now, part):
            raise ValueError(f"a resumed run keeps its {part}: start a new one with another --out")


def flat(table: dict[str, Any], where: str = "") -> list[tuple[str, float]]:
    """All numbers in nested tables, by path.

    >>> flat({"loss": 0.5, "test": {"accuracy": 0.9}})
    [('loss', 0.5), ('test/accuracy', 0.9)]
    """
    found: list[tuple[str, float]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += flat(value, f"{where}{name}/")
        elif isinstance(value, (int, float)):
            found.append((where + name, value))
    return found


def open_events(folder: Path, step: int) -> Any:
    """A TensorBoard writer that hides events after `step`, or nothing if tensorboard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)


def describe_environment() -> dict[str, Any]:
    """Versions, machine, command and git state: what one asks later of a run.

    >>> sorted(describe_environment())[:3]
    ['accelerate', 'command', 'device']
    """
    accelerate = require("accelerate", extra="train", purpose="training")

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


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
