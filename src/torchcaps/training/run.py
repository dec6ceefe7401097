from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

import torchcaps
from torchcaps._extras import require
from torchcaps._files import replaced_on_success
from torchcaps._machine import processor_name
from torchcaps.errors import RunError
from torchcaps.training.lock import RunLock
from torchcaps.training.recipe import Recipe

# Where runs go that are given no folder.
RUNS = Path("runs")
# A checkout, and what a result depends on there.
CHECKOUT = Path(__file__).parents[3]
CODE = ("src", "recipes", "setup.py", "pyproject.toml")


class Run:
    """A run's folder.

    - `recipe.toml`: the effective recipe
    - `environment.json`: versions, machine, git state and command of every session
    - `metrics.jsonl`: one line per record, in order
    - `tensorboard/`: the same as events, where tensorboard is installed
    - `state.safetensors`: all that is needed to resume
    - `last.safetensors`, `best.safetensors`: the model after the latest epoch, and after the best one
    - `epoch-1.safetensors` …: the model after each epoch, with `keep_epochs`
    - `result.json`: the result, written at the end or when the run stops
    - `failed.safetensors`: weights, gradients and batch of a step that was not finite
    - `run.lock`: which process writes into the folder, while one does; reading needs no lock

    Model files are written before the state that refers to them, so that they exist whenever it does.

    Args:
        path: the folder; made if it is not there.
        recipe: what is trained.
        resume: continue the run in the folder, if there is one.
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
        self.lock: RunLock | None = None
        if main:
            with self.writing(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                self.lock = RunLock(self.path)
        self.resumes = resume and self.state.is_file()
        if main:
            try:
                self._open(resume)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process write into the folder."""
        if self.lock is not None:
            self.lock.release()

    def _open(self, resume: bool) -> None:
        earlier = self.path / "recipe.toml"
        if earlier.is_file():
            if not resume:
                raise ValueError(
                    f"{self.path} already holds a run: continue it with resume (--resume), or give another "
                    "folder (--out)"
                )
            check_resumable(Recipe.from_file(earlier), self.recipe)
        for unfinished in self.path.glob(".*.tmp"):
            unfinished.unlink()
        if not self.resumes:
            self.begin(0, 0)

    @property
    def reported(self) -> Path:
        """The model that `result.json` reports, see `reported_model`."""
        return self.best if self.recipe.data.val_fraction else self.last

    def sessions(self) -> list[dict[str, Any]]:
        """The environment of every session so far."""
        return sessions_of(self.path)

    def of_epoch(self, epoch: int) -> Path:
        """The file for the model of an epoch; epochs count from 1."""
        return self.path / f"epoch-{epoch}.safetensors"

    def begin(self, records: int, step: int) -> None:
        """Begin a session: write the recipe and the environment, and continue the metrics.

        A resumed run calls this when its state is loaded, so that a refused one changes nothing.

        Args:
            records: lines of metrics to keep; the resumed run will write the later ones again.
            step: updates done.
        """
        if not self.main:
            return
        self._write("recipe.toml", self.recipe.to_toml())
        sessions = [*self.sessions(), describe_environment()]
        self._write("environment.json", json.dumps(sessions, indent=2) + "\n")
        lines = self.metrics.read_text().splitlines()[:records] if self.metrics.is_file() else []
        self._write("metrics.jsonl", "".join(f"{line}\n" for line in lines))
        with self.writing(self.path / "tensorboard"):
            self.events = open_events(self.path / "tensorboard", step)

    def record(self, numbers: dict[str, Any]) -> None:
        """Add a line to the metrics, on the disk before this returns."""
        if not self.main:
            return
        with self.writing(self.metrics), open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(numbers) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if self.events is not None:
            with self.writing(self.path / "tensorboard"):
                for name, value in flatten_numbers(numbers):
                    self.events.add_scalar(name, value, numbers["step"])
                self.events.flush()

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result."""
        if self.main:
            self._write("result.json", json.dumps(result, indent=2) + "\n")

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Raise a `RunError` that names the file if it cannot be written, such as on a full disk."""
        try:
            yield
        except OSError as fault:
            raise RunError(
                f"{path} cannot be written ({fault.strerror or fault}): what was saved before is intact; "
                "when there is room (and permission) to write, continue the run with resume (--resume)"
            ) from fault

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        with self.writing(path), replaced_on_success(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def reported_model(folder: str | Path) -> Path:
    """The weights file of the model that a run reports; `evaluate` and `predict` use the same one.

    It is the model that was best on the validation images, if the run has some (`data.val_fraction`), and
    otherwise the last one: a model chosen by its test accuracy would look better than it is. Before the end
    of the first epoch there is only the last one.

    Raises:
        RunError: the folder holds no model.
    """
    folder = Path(folder)
    recipe = folder / "recipe.toml"
    validated = recipe.is_file() and Recipe.from_file(recipe).data.val_fraction > 0
    for name in ("best.safetensors", "last.safetensors") if validated else ("last.safetensors",):
        if (folder / name).is_file():
            return folder / name
    raise RunError(f"{folder} holds no trained model yet (last.safetensors)")


def choose_folder(out: str | Path | None, name: str, *, resume: bool = False) -> Path:
    """The folder of a run: `out`, or a free one in `runs/`.

    Args:
        out: the folder, if it is given.
        name: of the run; `runs/NAME`, or `runs/NAME-2` and so on where that is taken. The folder is made, so
            that another run cannot choose it too.
        resume: take the newest of these folders as it is.
    """
    if out is not None:
        return Path(out)
    folder, number = RUNS / name, 1
    if resume:
        while (RUNS / f"{name}-{number + 1}").is_dir():
            number += 1
        return folder if number == 1 else RUNS / f"{name}-{number}"
    while True:
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            number += 1
            folder = RUNS / f"{name}-{number}"
    return folder


def sessions_of(run: Path) -> list[dict[str, Any]]:
    """The environment of every session of the run in a folder."""
    path = run / "environment.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def check_resumable(before: Recipe, now: Recipe) -> None:
    """Refuse to resume a run with a recipe that its state does not fit.

    Model, data, seed and batch size must stay: they decide which batch comes next. The place of the data, the
    number of epochs and everything else may change; whether the optimizer fits its state is checked there.
    """
    old, new = resume_keys(before), resume_keys(now)
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    if changed:
        values = ", ".join(f"{key} was {old.get(key)!r} and is now {new.get(key)!r}" for key in changed)
        raise ValueError(
            f"a resumed run keeps its recipe, but {values}; start a new run in another folder (--out)"
        )


def resume_keys(recipe: Recipe) -> dict[str, Any]:
    """The values of a recipe that a resumed run must keep, by dotted key."""
    table = recipe.to_table()
    keep = {"seed": table["seed"], "training.batch_size": table["training"]["batch_size"]}
    for part in ("model", "data"):
        keep |= {f"{part}.{key}": value for key, value in table[part].items() if key != "dir"}
    return keep


def flatten_numbers(table: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """All numbers in nested tables, by path.

    >>> flatten_numbers({"loss": 0.5, "test": {"accuracy": 0.9}})
    [('loss', 0.5), ('test/accuracy', 0.9)]
    """
    numbers: list[tuple[str, float]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            numbers += flatten_numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            numbers.append((prefix + name, value))
    return numbers


def open_events(folder: Path, step: int) -> Any:
    """A TensorBoard writer that hides events after `step`, or `None` if tensorboard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)


def describe_environment() -> dict[str, Any]:
    """Versions, machine, command and git state.

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
    """The time in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def git_state(root: Path = CHECKOUT) -> dict[str, Any] | None:
    """Commit of the checkout, and whether its code or recipes are changed; `None` for an installed package.

    Other files do not count: experiments themselves write records into the checkout.
    """
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git(root, "status", "--porcelain", "-uno", "--", *CODE))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *words: str) -> str:
    finished = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True
    )
    return finished.stdout.strip()
