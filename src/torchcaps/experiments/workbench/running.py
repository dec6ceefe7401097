from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.folder import add_seconds, take_folder
from torchcaps.experiments.workbench.on_disk import write_table, write_text
from torchcaps.experiments.workbench.report import report_html
from torchcaps.experiments.workbench.study import Interrupted, Study, deadline_of
from torchcaps.training.callbacks import Callback
from torchcaps.training.run import describe_environment

# Experiments compute and draw with these too, and their results may change with them.
LIBRARIES = ("numpy", "scikit-learn", "matplotlib")


def reproduce(
    claim: Claim,
    out: str | Path,
    *,
    quick: bool = False,
    seed: int = 0,
    data_dir: str | None = None,
    budget: float | None = None,
    watch: Callable[[], Callback] = Callback,
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

    Returns what is in `result.json`; its `status` is `"ended"`, `"budget"` or `"interrupted"`. After the last
    two the same call goes on.
    """
    if seed < 0:
        raise ValueError(f"--seed must be 0 or more, got {seed}")
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise ValueError(f"--data-dir {data_dir}: there is no such folder")
    take_folder(Path(out), claim.name, quick=quick, seed=seed)
    study = Study(
        out, quick=quick, seed=seed, data_dir=data_dir, deadline=deadline_of(budget), watch=watch, say=say
    )
    study.uses(claim.quick_data if quick else claim.data)
    begun = time.monotonic()
    try:
        claim.run(study)
    except Interrupted as stop:
        say(str(stop))
        return {"name": claim.name, "status": stop.reason, "why": str(stop)}
    except KeyboardInterrupt:
        # Between trainings, which stop by themselves: what was kept stays kept.
        return {"name": claim.name, "status": "interrupted", "why": "stopped (interrupted)"}
    finally:
        seconds = add_seconds(study.out, time.monotonic() - begun)
    result = {
        "name": claim.name,
        "status": "ended",
        "claim": claim.claim,
        "source": claim.source,
        "data": study.data,
        "quick": quick,
        "seed": seed,
        "seconds": seconds,
        **study.result(),
        "environment": {**describe_environment(), **versions()},
    }
    write_table(study.out / "result.json", result)
    write_text(study.out / "report.html", report_html(claim, result, study.found))
    return result


def versions() -> dict[str, str | None]:
    """The versions of the libraries beside PyTorch.

    >>> list(versions())
    ['numpy', 'scikit-learn', 'matplotlib']
    """
    found: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
