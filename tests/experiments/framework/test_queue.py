from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from torchcaps.experiments.framework.queue import QueueResult, run_queue
from torchcaps.experiments.framework.study import Claim, Study


class Bench:
    """Experiments that write down in which order they run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, list[str]()
        self.broken: set[str] = set()
        self.stopped: set[str] = set()
        self.claims = [self.claim("long", 60), self.claim("short", 1), self.claim("middle", 20)]

    def claim(self, name: str, minutes: int) -> Claim:
        def run(study: Study) -> None:
            self.calls.append(f"{name} {study.seed}")
            if name in self.broken:
                raise RuntimeError("no such data")
            if name in self.stopped:
                raise KeyboardInterrupt
            study.add_number("error", float(study.seed))
            study.add_verdict(True, "It does.")

        return Claim(name, "a claim", "a paper", "large", "small", minutes, run)

    def run(self, claims: Sequence[Claim] | None = None, **options: object) -> QueueResult:
        self.calls.clear()
        folder_of: Callable[[Claim], Path] = lambda claim: self.folder / "runs" / claim.name  # noqa: E731
        return run_queue(claims or self.claims, folder_of, **{"seeds": 3, **options})  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_shortest_experiments_come_first(bench: Bench) -> None:
    assert bench.run().ended == ["short", "middle", "long"]
    assert bench.calls[:4] == ["short 0", "short 1", "short 2", "middle 0"]


def test_number_of_seeds_depends_on_the_time(bench: Bench) -> None:
    bench.run(seeds=None)
    assert [call.split()[0] for call in bench.calls].count("short") == 5
    assert [call.split()[0] for call in bench.calls].count("long") == 3


def test_one_that_fails_does_not_stop_the_others(bench: Bench) -> None:
    bench.broken = {"short"}
    result = bench.run()
    assert result.failed == {"short": "RuntimeError: no such data"}
    assert result.ended == ["middle", "long"]


def test_stopped_queue_continues_and_skips_what_is_recorded(bench: Bench) -> None:
    records = bench.folder / "claims"
    bench.stopped = {"middle"}
    result = bench.run(records=records)
    assert (result.status, result.ended, result.left) == ("interrupted", ["short"], ["middle", "long"])
    assert [path.name for path in records.glob("*.json")] == ["short.json"]
    bench.stopped = set()
    result = bench.run(records=records, resume=True)
    assert (result.status, result.skipped, result.ended) == ("ended", ["short"], ["middle", "long"])
    assert not any(call.startswith("short") for call in bench.calls)
    # More seeds are other settings.
    assert bench.run(records=records, resume=True, seeds=4).skipped == []


def test_without_records_finished_folders_are_skipped(bench: Bench) -> None:
    bench.run()
    assert bench.run(resume=True).skipped == ["short", "middle", "long"]
    assert bench.run(resume=False).skipped == []
    assert bench.run(resume=True, quick=True).failed.keys() == {"short", "middle", "long"}


def test_used_up_budget_leaves_the_rest(bench: Bench) -> None:
    result = bench.run(budget=0.0)
    assert (result.status, result.left) == ("budget", ["short", "middle", "long"])
    assert bench.calls == []


def test_records_of_too_few_seeds_are_refused_before_anything_runs(bench: Bench) -> None:
    with pytest.raises(ValueError, match="at least 3 seeds"):
        bench.run(records=bench.folder, seeds=2)
    with pytest.raises(ValueError, match="the full form"):
        bench.run(records=bench.folder, quick=True)
    assert bench.calls == []


KILLED = """
import os, signal, sys
from pathlib import Path
from torchcaps.experiments.framework.queue import run_queue
from torchcaps.experiments.framework.study import Claim
from torchcaps.training import default_recipe
from torchcaps.training.callbacks import Callback

out, kill_at = Path(sys.argv[1]), sys.argv[2]
RECIPE = default_recipe("pooled_cnn", "digits").override(
    ["training.epochs=2", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]", "data.limit=200"]
)


def die(where):
    if where == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


class Killer(Callback):
    def on_step_end(self, position, totals):
        die(f"step {position.step} of {current[0]}")


def run(study):
    current[0] = f"seed {study.seed}"
    study.train("cnn", RECIPE)
    die(f"trained seed {study.seed}")
    study.add_number("error", study.training_result("cnn")["metrics"]["test"]["error"])
    study.add_verdict(True, "It does.")


current = [""]
claim = Claim("one", "a claim", "a paper", "large", "small", 20, run)
run_queue(
    [claim], lambda each: out / "runs" / each.name, seeds=3, records=out / "claims", resume=True,
    make_callback=Killer, log=print,
)
"""


@pytest.mark.slow
def test_queue_continues_after_a_kill_at_any_point(tmp_path: Path) -> None:
    """The process is killed in the middle of a training and after it; the record is that of one session."""
    script = tmp_path / "queue_killed.py"
    script.write_text(KILLED)

    def run(folder: str, kill_at: str) -> tuple[int, str]:
        command = [sys.executable, str(script), str(tmp_path / folder), kill_at]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout

    assert run("whole", "never")[0] == 0
    for place in ("step 1 of seed 1", "trained seed 1", "step 3 of seed 2"):
        assert run("parts", place)[0] == -signal.SIGKILL, place
    code, log = run("parts", "never")
    assert code == 0
    assert [f"one, seed {seed}: on record" in log for seed in range(3)] == [True, True, False]
    whole, parts = (
        json.loads((tmp_path / folder / "claims" / "one.json").read_text())["numbers"]
        for folder in ("whole", "parts")
    )
    assert whole == parts
