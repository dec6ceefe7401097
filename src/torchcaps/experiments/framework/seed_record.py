"""The result of a single seed on record, so that an experiment of many hours continues on another machine.

`claims/seeds/NAME-SEED.json` holds what one seed of a full form wrote: all numbers, verdicts, tables and
texts of its report; the main figure is beside it. Networks and other files of the run are not needed any
more.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torchcaps
from torchcaps.experiments.framework.formatting import cell_from_json
from torchcaps.experiments.framework.storage import read_json, write_json
from torchcaps.experiments.framework.study import (
    Claim,
    Figure,
    ReportItem,
    Table,
    Text,
    Verdict,
    table_json,
)
from torchcaps.experiments.framework.thumbnail import copy_figure

SEEDS = "seeds"
"""The folder of these files, inside that of the records."""


def seed_path(claim: Claim, seed: int, records: Path) -> Path:
    """The file of a seed.

    Args:
        claim: the experiment.
        seed: its random seed.
        records: folder of the records, such as `claims`.
    """
    return records / SEEDS / f"{claim.name}-{seed}.json"


def write_seed(
    claim: Claim, result: dict[str, Any], items: Sequence[ReportItem], run: Path, records: Path
) -> Path:
    """Put the result of a seed on record.

    Args:
        claim: the experiment.
        result: of the seed, with the digest of its `code`.
        items: of its report.
        run: its folder.
        records: folder of the records.
    """
    path = seed_path(claim, result["seed"], records)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = copy_figure(path.stem, result["figures"], run, path.parent, chosen=claim.figure)
    stored = [item_json(item, figure) for item in items if not isinstance(item, Figure)]
    main = [item for item in items if isinstance(item, Figure)]
    main = [item for item in main if item.name == claim.figure] or main
    if figure is not None:
        stored.append(item_json(main[0], figure))
    # Verdicts, tables and figures are among the items; recipes and the command may name private folders.
    left_out = ("verdicts", "tables", "figures", "recipes")
    kept = {name: value for name, value in result.items() if name not in left_out}
    kept["environment"] = {name: value for name, value in result["environment"].items() if name != "command"}
    write_json(path, {**kept, "items": stored})
    return path


def read_seed(
    claim: Claim, seed: int, code: str, run: Path, records: Path
) -> tuple[dict[str, Any], list[ReportItem]] | None:
    """The result of a seed and the items of its report, if it is on record with the present code.

    Args:
        claim: the experiment.
        seed: its random seed.
        code: digest of the present code.
        run: the folder that the seed would run in; the figure is copied there.
        records: folder of the records.
    """
    path = seed_path(claim, seed, records)
    try:
        result = read_json(path, "name", "code", "seed", "environment", "items")
    except (OSError, ValueError):
        return None
    same = (claim.name, seed, code, torchcaps.__version__)
    if (result["name"], result["seed"], result["code"], result["environment"].get("torchcaps")) != same:
        return None
    items: list[ReportItem] = []
    for each in result.pop("items"):
        item = item_from_json(each)
        if isinstance(item, Figure):
            run.mkdir(parents=True, exist_ok=True)
            item = item._replace(path=run / item.path.name)
            shutil.copyfile(path.parent / item.path.name, item.path)
        items.append(item)
    result["recipes"] = {}
    result["figures"] = [
        {"name": item.name, "file": item.path.name} for item in items if isinstance(item, Figure)
    ]
    return result, items


def item_json(item: ReportItem, file: str | None = None) -> dict[str, Any]:
    """An item of a report as JSON can hold it.

    Args:
        item: to write.
        file: of a figure.

    Example:
        >>> item_from_json(item_json(Verdict(None, "5 of 10"))).heading
        'The claim holds in part'
    """
    if isinstance(item, Table):
        return {"table": {**table_json(item), "caption": item.caption}}
    if isinstance(item, Figure):
        return {"figure": {"name": item.name, "path": file, "caption": item.caption}}
    return {type(item).__name__.lower(): item._asdict()}


def item_from_json(table: dict[str, Any]) -> ReportItem:
    """An item that `item_json` wrote."""
    ((kind, values),) = table.items()
    if kind == "table":
        rows = [[cell_from_json(cell) for cell in row] for row in values["rows"]]
        return Table(**{**values, "rows": rows})
    if kind == "figure":
        return Figure(**{**values, "path": Path(values["path"])})
    return Verdict(**values) if kind == "verdict" else Text(**values)
