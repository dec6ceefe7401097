from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from torchcaps.experiments.framework.items import ReportItem, Verdict
from torchcaps.experiments.framework.report import report_html
from torchcaps.experiments.framework.storage import add_seconds, open_folder, write_json, write_text
from torchcaps.experiments.framework.study import Claim, Study, StudyStopped
from torchcaps.training.callbacks import Callback
from torchcaps.training.run import describe_environment

# Results may depend on the versions of these libraries too.
LIBRARIES = ("numpy", "scikit-learn", "matplotlib")


def reproduce(
    claim: Claim,
    out: str | Path,
    *,
    quick: bool = False,
    seed: int = 0,
    data_dir: str | None = None,
    budget: float | None = None,
    make_callback: Callable[[], Callback] = Callback,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run an experiment, or continue it, and write `result.json`, its figures and `report.html`.

    Args:
        claim: the experiment.
        out: its folder; steps that were completed there are not repeated.
        quick: small data and short training, at most 3 minutes on 2 cores.
        seed: seed of all random numbers.
        data_dir: folder of the data sets, if not in the usual places.
        budget: seconds after which to save and stop.
        make_callback: makes the callback of each training run.
        log: called with a line of text when a step starts.

    Returns:
        The content of `result.json`; its `status` is `"ended"`, `"budget"` or `"interrupted"`. After the
        last two, the same call continues the experiment.
    """
    result, _ = run_study(
        claim,
        out,
        quick=quick,
        seed=seed,
        data_dir=data_dir,
        budget=budget,
        make_callback=make_callback,
        log=log,
    )
    return result


def run_study(
    claim: Claim,
    out: str | Path,
    *,
    quick: bool,
    seed: int,
    data_dir: str | None,
    budget: float | None,
    first: Mapping[str, float] | None = None,
    make_callback: Callable[[], Callback],
    log: Callable[[str], None],
) -> tuple[dict[str, Any], list[ReportItem]]:
    """The same as `reproduce`; returns the items of the report too, none if it was stopped.

    `first` are the numbers of seed 0, whose learning rates the other seeds take.
    """
    if seed < 0:
        raise ValueError(f"--seed must be 0 or more, got {seed}")
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise ValueError(f"--data-dir {data_dir}: there is no such folder")
    open_folder(Path(out), claim.name, quick=quick, seed=seed)
    start = time.monotonic()
    study = Study(
        out,
        quick=quick,
        seed=seed,
        data_dir=data_dir,
        deadline=None if budget is None else start + budget,
        first=first,
        make_callback=make_callback,
        log=log,
    )
    study.use_data(claim.quick_data if quick else claim.data, data_dir)
    try:
        claim.run(study)
    except StudyStopped as stop:
        log(str(stop))
        return {"name": claim.name, "status": stop.status, "message": str(stop)}, []
    except KeyboardInterrupt:
        # A training run stops and saves by itself; this is between two of them, and the cache stays valid.
        return {"name": claim.name, "status": "interrupted", "message": "stopped (interrupted)"}, []
    finally:
        seconds = add_seconds(study.out, time.monotonic() - start)
    judge_numbers(claim, study)
    result = {
        "name": claim.name,
        "status": "ended",
        "claim": claim.claim,
        "source": claim.source,
        "data": study.data,
        "quick": quick,
        "seed": seed,
        "seconds": seconds,
        **study.results(),
        "environment": {**describe_environment(), **library_versions()},
    }
    write_json(study.out / "result.json", result)
    write_text(study.out / "report.html", report_html(claim, result, study.items))
    return result, study.items


def judge_numbers(claim: Claim, study: Study) -> None:
    """Add the verdict on the claim, if the claim is decided by its numbers and has no verdict yet."""
    decided = any(isinstance(item, Verdict) and not item.question for item in study.items)
    if claim.judge is not None and not decided:
        study.items.insert(0, Verdict(*claim.judge(study.numbers)))


def library_versions() -> dict[str, str | None]:
    """The versions of the libraries besides PyTorch.

    >>> list(library_versions())
    ['numpy', 'scikit-learn', 'matplotlib']
    """
    versions: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions
