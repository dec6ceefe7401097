"""Outcomes on record: from the folder of an experiment with several seeds to `claims/NAME.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torchcaps
from torchcaps.errors import RunError
from torchcaps.experiments.framework.formatting import cell_from_json, format_cell, needed_decimals
from torchcaps.experiments.framework.seeds import FEWEST, code_digest
from torchcaps.experiments.framework.storage import read_json, write_json
from torchcaps.experiments.framework.study import Claim
from torchcaps.experiments.framework.thumbnail import copy_figure

CLAIMS = Path("claims")
ENVIRONMENT = ("python", "torch", "torchcaps", "numpy", "scikit-learn", "processor", "device", "threads")


def check_recordable(claim: Claim, seeds: int, *, quick: bool) -> None:
    """Refuse a record that proves too little, before hours are spent on it.

    Raises:
        ValueError: the form is the quick one, or there are too few seeds.
    """
    if quick:
        raise ValueError(
            "--record is for the full form: the quick form shows that an experiment runs, not more"
        )
    if seeds < FEWEST and not claim.deterministic:
        raise ValueError(
            f"--record needs at least {FEWEST} seeds, got {seeds}: chance differs from seed to seed"
        )


def record_claim(claim: Claim, run: str | Path, folder: str | Path = CLAIMS) -> Path:
    """Write the outcome of an experiment to the folder of records, and its main figure beside it.

    Args:
        claim: the experiment.
        run: its folder, of `reproduce_seeds`.
        folder: of the records, one JSON file per claim.

    Returns:
        The file written.

    Raises:
        RunError: the experiment has not ended.
        ValueError: the result is that of the quick form or has too few seeds.
    """
    run, folder = Path(run), Path(folder)
    path = run / "result.json"
    result = read_json(path, "status", "name") if path.is_file() else {}
    if result.get("status") != "ended" or "seeds" not in result or result["name"] != claim.name:
        raise RunError(f"{run} holds no result of {claim.name} with several seeds: run it to its end first")
    check_recordable(claim, len(result["seeds"]), quick=result["quick"])
    environment = result["environment"]
    git = environment.get("git") or {}
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{claim.name}.json"
    table = {
        "name": claim.name,
        "claim": claim.claim,
        "source": claim.source,
        "data": result["data"],
        "command": f"torchcaps reproduce {claim.name} --seeds {len(result['seeds'])}",
        "commit": git.get("commit"),
        "changed": git.get("changed"),
        "trained_at": result["trained_at"],
        "code": result["code"],
        "date": environment["started"][:10],
        "seeds": result["seeds"],
        "hours": round(result["seconds"] / 3600, 3),
        "verdicts": result["verdicts"],
        "published": [claim.published] if claim.published else marked_rows(result["tables"]),
        "numbers": result["numbers"],
        "tables": result["tables"],
        "figure": copy_figure(claim.name, result["figures"], run, folder, chosen=claim.figure),
        "environment": {name: environment.get(name) for name in ENVIRONMENT},
    }
    write_json(written, table)
    return written


def is_recorded(claim: Claim, seeds: int, folder: str | Path = CLAIMS) -> bool:
    """Whether there is a record of at least so many seeds, from this version and the present code."""
    path = Path(folder) / f"{claim.name}.json"
    try:
        table = read_json(path, "seeds", "code", "environment")
    except (OSError, ValueError):
        return False
    return has_same_settings(claim, seeds, table)


def is_finished(claim: Claim, seeds: int, run: str | Path, *, quick: bool) -> bool:
    """Whether the folder of an experiment holds such a result."""
    try:
        table = read_json(Path(run) / "result.json", "status", "seeds", "quick", "code", "environment")
    except (OSError, ValueError):
        return False
    return table["quick"] == quick and has_same_settings(claim, seeds, table)


def has_same_settings(claim: Claim, seeds: int, table: dict[str, Any]) -> bool:
    """Whether a result or a record comes from enough seeds and the present code."""
    same_version = table["environment"].get("torchcaps") == torchcaps.__version__
    return same_version and len(table["seeds"]) >= seeds and table["code"] == code_digest(claim)


def marked_rows(tables: Sequence[dict[str, Any]]) -> list[str]:
    """The marked rows of tables that are published numbers, as text.

    Such a row names its paper. Others are marked for another reason: they were measured here, like a ceiling.

    >>> rows = [["ours", 3.0, 4], ["paper: CNN", 5.2, None], ["ceiling", 0.0, 4]]
    >>> marked_rows([{"columns": ["network", "error (%)", "epochs"], "rows": rows, "marked": [1, 2]}])
    ['paper: CNN: error 5.2 %']
    """
    texts = []
    for table in tables:
        for number in table["marked"]:
            name, *cells = map(cell_from_json, table["rows"][number])
            if "paper" not in name:
                continue
            known = [
                column_text(column, cell)
                for column, cell in zip(table["columns"][1:], cells)
                if cell is not None and column != "parameters"
            ]
            texts.append(f"{name}: {', '.join(known)}")
    return texts


def column_text(column: str, cell: Any) -> str:
    """A cell with the name of its column; the unit of the column goes behind the number.

    >>> column_text("error (%)", 5.2), column_text("FGSM (%)", "below chance"), column_text("epochs", 3)
    ('error 5.2 %', 'FGSM below chance', 'epochs 3')
    """
    name = column.removesuffix(" (%)")
    if isinstance(cell, float):
        text = format_cell(cell, needed_decimals(cell, 2), abs(cell))
    else:
        text = format_cell(cell, 0, 0.0)
    number = isinstance(cell, (int, float)) and name != column
    return f"{name} {text}" + " %" * number
