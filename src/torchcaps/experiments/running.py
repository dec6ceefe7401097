from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchcaps.data.atomic import replaced_on_success
from torchcaps.experiments.claim import Claim
from torchcaps.experiments.report import report_html
from torchcaps.experiments.study import Interrupted, Study, deadline_of
from torchcaps.training.environment import describe_environment
from torchcaps.training.watching import Watcher


def reproduce(
    claim: Claim,
    out: str | Path,
    *,
    quick: bool = False,
    seed: int = 0,
    data_dir: str | None = None,
    budget: float | None = None,
    watch: Callable[[], Watcher] = Watcher,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run an experiment, or go on with it, and write `result.json`, its figures and `report.html`.

    Args:
        claim: the experiment.
        out: its folder; what was done there before is not done again.
        quick: small data and short training, within 3 minutes on 2 cores.
        seed: of every random number.
        data_dir: where data sets lie, if not in the usual places.
        budget: seconds after which to stop, saved.
        watch: makes what is told of each training.
        say: is told what is being done.

    Returns what is in `result.json`; its `status` is `"ended"` or `"stopped"`.
    """
    study = Study(
        out, quick=quick, seed=seed, data_dir=data_dir, deadline=deadline_of(budget), watch=watch, say=say
    )
    check_same_kind(study)
    begun = time.monotonic()
    try:
        claim.run(study)
    except Interrupted as stop:
        say(f"{stop}: the same command goes on from there")
        return {"name": claim.name, "status": "stopped", "why": str(stop)}
    # Measured over all sittings: what was kept from earlier ones took its time then.
    seconds = add_up_seconds(study, time.monotonic() - begun)
    result = {
        "name": claim.name,
        "status": "ended",
        "claim": claim.claim,
        "source": claim.source,
        "quick": quick,
        "seed": seed,
        "seconds": seconds,
        **study.result(),
        "environment": describe_environment(),
    }
    write(study.out / "result.json", json.dumps(result, indent=2) + "\n")
    write(study.out / "report.html", report_html(claim, result, study.found))
    return result


def check_same_kind(study: Study) -> None:
    """A folder holds one kind of run: quick or full, with one seed."""
    path = study.out / "study.json"
    now = {"quick": study.quick, "seed": study.seed}
    if not path.is_file():
        write(path, json.dumps(now) + "\n")
    before = json.loads(path.read_text(encoding="utf-8"))
    if before != now:
        kind = "quick" if before["quick"] else "full"
        raise ValueError(
            f"{study.out} holds the {kind} form with seed {before['seed']}: give another --out, or remove it"
        )


def add_up_seconds(study: Study, now: float) -> float:
    """Seconds of this sitting and, if longer, of all trainings inside the study."""
    results = (study.out / "trained").glob("*/result.json")
    trained = sum(json.loads(path.read_text(encoding="utf-8"))["seconds"] for path in results)
    return round(max(now, trained), 1)


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    with replaced_on_success(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
