from __future__ import annotations

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
