from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from torture import kills, lab, numeric, parsers
from torture.report import COLUMNS, Part, current_commit, record

Runner = Callable[[int, int, Callable[[int], None]], tuple[Counter[str], list[dict[str, Any]]]]

# Each part: its function, its size, its size with --quick, and its cases in words.
PARTS: dict[str, tuple[Runner, int, int, str]] = {
    "numeric": (numeric.run, 100_000, 2_000, "{size:,} samples, {fused cases:,} fused too"),
    "kills": (kills.run, 100, 3, "{kills} kills in {runs} runs"),
    "parsers": (parsers.run, 1_000_000, 20_000, "{cases:,} files, {bytes:,} bytes"),
    "lab": (lab.run, 300, 10, "{good:,} good and {hostile:,} hostile requests"),
}


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="torture", description="Random attacks on torchcaps.")
    parser.add_argument("--seed", type=int, default=0, help="repeats a run; lab requests depend on time too")
    parser.add_argument("--quick", action="store_true", help="a small number of cases: about two minutes")
    parser.add_argument("--only", choices=PARTS, help="one part only")
    parser.add_argument("--cases", type=int, help="the size of each part: cases, kills, bytes or seconds")
    parser.add_argument("--case", help="repeat one case that a run has printed, such as em:123 or images:45")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write counts and failing cases")
    parser.add_argument("--record", action="store_true", help="write the table to docs/reliability.md")
    return parser.parse_args(arguments)


def run_part(name: str, seed: int, size: int, console: Console) -> Part:
    """Run one part with a progress bar."""
    runner, _, _, words = PARTS[name]
    columns = [TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    total = size * (len(parsers.TARGETS) if name == "parsers" else 1)
    begin, commit = time.monotonic(), current_commit()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=total)
        counts, kept = runner(seed, size, lambda step: progress.advance(task, step))
    named = Counter({"size": size, **counts})
    return Part(name, seed, words.format_map(named), time.monotonic() - begin, counts, commit, kept)


def is_failure(name: str) -> bool:
    """Whether a kind of finding must not happen."""
    return "outside" not in name


def show(part: Part, console: Console) -> None:
    """Print each failing case as a line that repeats it."""
    for case in part.kept:
        if any(is_failure(name) for name in case.get("found", {"failure": 1})):
            repeat = f"--only {part.name} --case {case['case']}" if "case" in case else part.name
            console.print(f"{repeat}: {case.get('found', '')} {case.get('what', case)}", highlight=False)


def repeat_case(part: str | None, case: str) -> int:
    """Repeat one case; returns 1 if something is wrong again."""
    if part == "parsers" or case.partition(":")[0] in parsers.TARGETS:
        fault = parsers.run_case(case)
        print(fault or "nothing is wrong")
        return bool(fault)
    found, words = numeric.run_case(case)
    print(f"{words}\n{dict(found) or 'nothing is wrong'}")
    for name in ("fused cases", "compared cases"):
        found.pop(name, None)
    return any(is_failure(name) for name in found)


def main() -> int:
    """Run the parts, print the table; the exit code is 1 if anything failed."""
    options = parse_arguments()
    torch.set_num_threads(1)
    if options.case is not None:
        return repeat_case(options.only, options.case)
    console = Console(width=None if sys.stdout.isatty() else 150)
    parts = []
    for name, (_, full, quick, _) in PARTS.items():
        if options.only in (None, name):
            part = run_part(name, options.seed, options.cases or (quick if options.quick else full), console)
            show(part, console)
            parts.append(part)
    table = Table(*COLUMNS)
    for part in parts:
        table.add_row(*part.row())
    console.print(table)
    if options.json:
        text = json.dumps([{**vars(part), "failures": part.failures} for part in parts], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.record:
        record(parts)
    return int(any(part.failures for part in parts))


if __name__ == "__main__":
    sys.exit(main())
