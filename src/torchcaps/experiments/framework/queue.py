"""All experiments one after another, shortest first; a queue that was stopped continues where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchcaps.experiments.framework.record import check_recordable, is_finished, is_recorded, record_claim
from torchcaps.experiments.framework.seeds import reproduce_seeds, seeds_needed
from torchcaps.experiments.framework.study import Claim
from torchcaps.training.callbacks import Callback


@dataclass
class QueueResult:
    """What became of each experiment.

    Attributes:
        status: `"ended"`, or `"budget"` or `"interrupted"` if some are left.
        ended: names of those that have ended now.
        skipped: those that had ended before, with the same settings.
        failed: message of each one that failed.
        left: those that are not finished.
    """

    status: str = "ended"
    ended: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def run_queue(
    claims: Sequence[Claim],
    folder_of: Callable[[Claim], Path],
    *,
    seeds: int | None = None,
    quick: bool = False,
    records: Path | None = None,
    resume: bool = False,
    budget: float | None = None,
    data_dir: str | None = None,
    make_callback: Callable[[], Callback] = Callback,
    log: Callable[[str], None] = lambda text: None,
) -> QueueResult:
    """Run many experiments with several seeds each, in the order of their estimated minutes.

    An experiment that fails does not stop the others.

    Args:
        claims: the experiments.
        folder_of: the folder of each; what was completed there is not repeated.
        seeds: number of seeds of each; by default `seeds_needed`.
        quick: run the quick forms, which are not recorded.
        records: folder in which each seed and each outcome is recorded; `None` for no record.
        resume: skip what is finished, or recorded if there are records, with the same settings.
        budget: seconds after which to save and stop.
        data_dir: folder of the data sets, if not in the usual places.
        make_callback: makes the callback of each training run.
        log: called with a line of text when a step starts.
    """
    start, result = time.monotonic(), QueueResult()
    waiting = sorted(claims, key=lambda claim: claim.minutes)
    counts = {claim.name: seeds_needed(claim) if seeds is None else seeds for claim in waiting}
    if records is not None:
        for claim in waiting:
            check_recordable(claim, counts[claim.name], quick=quick)
    while waiting:
        claim = waiting.pop(0)
        count, folder = counts[claim.name], folder_of(claim)
        if resume and (
            is_finished(claim, count, folder, quick=quick)
            if records is None
            else is_recorded(claim, count, records)
        ):
            result.skipped.append(claim.name)
            continue
        left = None if budget is None else start + budget - time.monotonic()
        if left is not None and left <= 0:
            status = "budget"
        else:
            log(f"{claim.name}: {claim.claim} → {folder}")
            try:
                status = reproduce_seeds(
                    claim,
                    folder,
                    seeds=count,
                    quick=quick,
                    records=records,
                    data_dir=data_dir,
                    budget=left,
                    make_callback=make_callback,
                    log=log,
                )["status"]
                if status == "ended" and records is not None:
                    log(f"recorded in {record_claim(claim, folder, records)}")
            except Exception as error:  # whatever is wrong with this one, the others go on
                result.failed[claim.name] = f"{type(error).__name__}: {error}"
                log(f"{claim.name} failed: {result.failed[claim.name]}")
                continue
        if status != "ended":
            result.status, result.left = status, [claim.name, *(each.name for each in waiting)]
            break
        result.ended.append(claim.name)
    return result
