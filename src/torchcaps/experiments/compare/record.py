"""A comparison on record: one JSON file with every finished cell, from which any machine continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchcaps.experiments.compare.cells import digest_of, read_results
from torchcaps.experiments.compare.figures import draw_overview
from torchcaps.experiments.compare.run import PLAN
from torchcaps.experiments.compare.summary import summarize_results
from torchcaps.experiments.framework.figures import save_figure
from torchcaps.experiments.framework.storage import read_json, write_json

# What decides the result of a cell, beside the settings of its part, which are in the frame.
OWN = ("network", "part", "seed", "model")


def record_comparison(folder: str | Path, record: Path, figure: Path) -> list[Path]:
    """Write all finished cells of a folder, their table, and a figure.

    Cells that the record holds already stay in it if they have the same settings of their part.

    Args:
        folder: of a comparison, complete or not.
        record: the JSON file.
        figure: name of the figure without its ending; nothing is drawn if there is no such folder.

    Returns:
        The files written.
    """
    plan = read_json(Path(folder) / PLAN, "form", "frame", "environment", "seeds")
    results = read_results(Path(folder), plan["frame"])
    own = plan["environment"]["processor"]
    cells = {digest_of(each["cell"]): {"processor": own, **each} for each in results if is_ended(each)}
    failed = [each for each in results if not is_ended(each)]
    cells = recorded_cells(record, plan) | cells
    summary = summarize_results(plan, [*cells.values(), *failed], str(folder))
    seconds = round(sum(each["seconds"] for each in cells.values()), 1)
    table = {**summary.to_table(), "seconds": seconds}
    table["cells"] = {digest: without_settings(each) for digest, each in sorted(cells.items(), key=place)}
    write_json(record, table)
    if not figure.parent.is_dir():
        return [record]
    save_figure(draw_overview(summary), figure)
    figure.with_suffix(".svg").unlink()
    return [record, figure.with_suffix(".png")]


def check_form(record: Path, form: str) -> None:
    """Refuse a record of another form, which would be lost.

    Args:
        record: the JSON file; nothing is wrong if there is none.
        form: `"quick"` or `"full"`.
    """
    if record.is_file() and (held := read_json(record, "form")["form"]) != form:
        raise ValueError(
            f"{record} holds the {held} form, which would be lost: move it away to record the {form} form"
        )


def is_ended(result: dict[str, Any]) -> bool:
    """Whether a cell is finished."""
    return result["status"] == "ended"


def place(item: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
    """Where a cell stands in the file: cells of one network are together."""
    cell = item[1]["cell"]
    network = cell["network"]
    return network["trunk"], network["head"], network["pose"] or "", cell["part"], cell["seed"]


def without_settings(result: dict[str, Any]) -> dict[str, Any]:
    """A result as the record holds it: the settings of the part are there once for all cells."""
    own = {name: result["cell"][name] for name in OWN}
    return {**own, **{name: value for name, value in result.items() if name not in ("cell", "status")}}


def recorded_cells(record: Path, plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The results in a record by digest, as the files of cells hold them, if they have the plan's settings.

    Raises:
        ValueError: the record is of another form, or the digest of a cell is not that of its settings.
    """
    if not record.is_file():
        return {}
    check_form(record, plan["form"])
    table = read_json(record, "frame", "cells")
    results = {}
    for digest, each in table["cells"].items():
        settings = table["frame"][each["part"]]
        cell = {**{name: each[name] for name in OWN}, "settings": settings}
        if digest_of(cell) != digest:
            raise ValueError(f"{record}: the cell {digest[:10]} has other settings than its digest says")
        if settings == plan["frame"].get(each["part"]):
            values = {name: value for name, value in each.items() if name not in OWN}
            results[digest] = {"cell": cell, "status": "ended", **values}
    return results


def read_record(record: Path) -> dict[str, dict[str, Any]]:
    """The values of all cells in a record by digest, for `compare`; none if there is no record."""
    cells = read_json(record, "cells")["cells"] if record.is_file() else {}
    return {
        digest: {name: value for name, value in each.items() if name not in OWN}
        for digest, each in cells.items()
    }
