"""An experiment with several seeds: each in a folder of its own, and one report of all of them."""

from __future__ import annotations

import hashlib
import inspect
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torchcaps.experiments.framework.combine import combine_items, combine_numbers, combine_verdicts
from torchcaps.experiments.framework.items import ReportItem, Table, Verdict, table_json
from torchcaps.experiments.framework.report import report_html
from torchcaps.experiments.framework.run import run_study
from torchcaps.experiments.framework.seed_record import read_seed, write_seed
from torchcaps.experiments.framework.storage import open_folder, read_json, write_json, write_text
from torchcaps.experiments.framework.study import Claim
from torchcaps.training.callbacks import Callback
from torchcaps.training.run import sessions_of

FEWEST = 3
# Short experiments can afford more seeds.
SHORT, SEEDS_IF_SHORT = 10, 5


def seeds_needed(claim: Claim) -> int:
    """How many seeds a record of a claim has, unless told otherwise."""
    if claim.deterministic:
        return 1
    if claim.seeds is not None:
        return claim.seeds
    return SEEDS_IF_SHORT if claim.minutes < SHORT else FEWEST


def reproduce_seeds(
    claim: Claim,
    out: str | Path,
    *,
    seeds: int,
    quick: bool = False,
    records: str | Path | None = None,
    data_dir: str | None = None,
    budget: float | None = None,
    make_callback: Callable[[], Callback] = Callback,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run an experiment with the seeds 0 to `seeds` - 1, or continue it, and write one report of all.

    Args:
        claim: the experiment.
        out: its folder; the folder of each seed is inside.
        seeds: number of seeds. More seeds can be added later.
        quick: small data and short training.
        records: folder of the records. A seed that is on record there is not run again, and each seed that
            has ended is put on record.
        data_dir: folder of the data sets, if not in the usual places.
        budget: seconds after which to save and stop.
        make_callback: makes the callback of each training run.
        log: called with a line of text when a step starts.

    Returns:
        The content of `result.json`, as of `reproduce`. Each number has its mean, its standard deviation and
        its values, and each verdict the answers of all seeds.
    """
    if seeds < 1:
        raise ValueError(f"--seeds must be 1 or more, got {seeds}")
    out = Path(out)
    open_folder(out, claim.name, quick=quick, seed=None)
    start = time.monotonic()
    results: list[dict[str, Any]] = []
    runs: list[list[ReportItem]] = []
    for seed in range(seeds):
        result, items = run_seed(
            claim,
            out,
            seed,
            quick=quick,
            records=records,
            data_dir=data_dir,
            budget=None if budget is None else max(0.0, start + budget - time.monotonic()),
            make_callback=make_callback,
            log=log,
        )
        if result["status"] != "ended":
            return result
        results.append(result)
        runs.append(items)
    result, items = combine_results(claim, results, runs)
    write_json(out / "result.json", result)
    write_text(out / "report.html", report_html(claim, result, items))
    return result


def run_seed(
    claim: Claim,
    out: str | Path,
    seed: int,
    *,
    quick: bool = False,
    records: str | Path | None = None,
    data_dir: str | None = None,
    budget: float | None = None,
    make_callback: Callable[[], Callback] = Callback,
    log: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, Any], list[ReportItem]]:
    """Run one seed of an experiment with several seeds, or continue it, or read it from the records.

    Several processes can compute several seeds at once: each has a folder and a record of its own.

    Args:
        claim: the experiment.
        out: folder of the experiment; that of the seed is inside.
        seed: its random seed.
        quick: small data and short training.
        records: folder of the records. A seed that is on record there is not run again, and one that has
            ended is put on record.
        data_dir: folder of the data sets, if not in the usual places.
        budget: seconds after which to save and stop.
        make_callback: makes the callback of each training run.
        log: called with a line of text when a step starts.

    Returns:
        The result of the seed, and the items of its report if it has ended.
    """
    out, code = Path(out), code_digest(claim)
    open_folder(out, claim.name, quick=quick, seed=None)
    folder = out / f"seed-{seed}"
    known = None if records is None else read_seed(claim, seed, code, folder, Path(records))
    if known is not None:
        log(f"{claim.name}, seed {seed}: on record")
        return known
    log(f"{claim.name}, seed {seed}")
    result, items = run_study(
        claim,
        folder,
        quick=quick,
        seed=seed,
        data_dir=data_dir,
        budget=budget,
        first=first_numbers(claim, out, code, records) if seed else None,
        make_callback=make_callback,
        log=log,
    )
    if result["status"] == "ended":
        result |= {"code": code, "trained_at": training_commits(folder)}
        if records is not None:
            write_seed(claim, result, items, folder, Path(records))
    return result, items


def first_numbers(
    claim: Claim, out: Path, code: str, records: str | Path | None
) -> Mapping[str, float] | None:
    """The numbers of seed 0, on record or in the folder of the experiment; `None` if it has not ended.

    Args:
        claim: the experiment.
        out: folder of the experiment.
        code: digest of the claim's present code.
        records: folder of the records.
    """
    folder = out / "seed-0"
    known = None if records is None else read_seed(claim, 0, code, folder, Path(records))
    if known is not None:
        return known[0]["numbers"]
    path = folder / "result.json"
    return read_json(path, "numbers")["numbers"] if path.is_file() else None


def combine_results(
    claim: Claim, results: list[dict[str, Any]], runs: list[list[ReportItem]]
) -> tuple[dict[str, Any], list[ReportItem]]:
    """The result of all seeds, and the items of its report.

    Args:
        claim: the experiment.
        results: of each seed.
        runs: the items of each seed.
    """
    numbers: list[Mapping[str, float]] = [result["numbers"] for result in results]
    verdicts = combine_verdicts(
        [[item for item in run if isinstance(item, Verdict)] for run in runs], numbers, claim.judge
    )
    seeds = [result["seed"] for result in results]
    items = combine_items(runs, seeds)
    first = results[0]
    figures = [{**each, "file": f"seed-{seeds[0]}/{each['file']}"} for each in first["figures"]]
    combined = {
        **{name: first[name] for name in ("name", "status", "claim", "source", "data", "quick")},
        "seeds": seeds,
        "seconds": round(sum(result["seconds"] for result in results), 1),
        "numbers": combine_numbers(numbers),
        "verdicts": [
            {
                "holds": verdict.holds,
                "heading": verdict.heading,
                "sentence": verdict.sentence,
                "question": verdict.question,
                "seeds": alone,
            }
            for verdict, alone in verdicts
        ],
        "tables": [table_json(item) for item in items if isinstance(item, Table)],
        "figures": figures,
        "recipes": first["recipes"],
        "code": code_digest(claim),
        "trained_at": list(dict.fromkeys(commit for result in results for commit in result["trained_at"])),
        "environment": results[-1]["environment"],
    }
    return combined, [*(verdict for verdict, _ in verdicts), *items]


def training_commits(run: Path) -> list[str]:
    """The commits at which the networks of one seed were trained, oldest first."""
    sessions = [
        session
        for path in run.glob("trained/*/environment.json")
        for session in sessions_of(path.parent)
        if session.get("git")
    ]
    sessions.sort(key=lambda session: session["started"])
    return list(dict.fromkeys(session["git"]["commit"] for session in sessions))


def code_digest(claim: Claim) -> str:
    """The sha256 of a claim's own module or package, to see whether a result was made with the same code.

    What the claim imports from elsewhere does not count. Nor does its function `judge`: verdicts are made
    again from recorded numbers whenever seeds are joined.

    Returns:
        The digest; empty if the experiment was not read from a file.
    """
    try:
        path = Path(inspect.getsourcefile(claim.run) or "")
    except TypeError:
        return ""
    if not path.is_file():
        return ""
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    judge = inspect.getsource(claim.judge) if claim.judge else ""
    digest = hashlib.sha256()
    for file in files:
        text = file.read_text(encoding="utf-8")
        text = text.replace(judge, "") if judge else text
        digest.update(f"{file.relative_to(path.parent).as_posix()}\n{text}".encode())
    return digest.hexdigest()
