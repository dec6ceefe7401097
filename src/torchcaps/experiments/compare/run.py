"""Run a comparison cell by cell, or continue it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchcaps._checks import check_choice, check_count, check_number
from torchcaps.experiments.compare.cells import (
    TRAINING,
    Cell,
    digest_of,
    frame_of,
    is_finished,
    plan_cells,
    read_result,
    write_result,
)
from torchcaps.experiments.compare.data import PartData, load_part
from torchcaps.experiments.compare.estimate import Estimate, estimate_cells
from torchcaps.experiments.compare.forms import SPEED, Form
from torchcaps.experiments.compare.networks import Network
from torchcaps.experiments.compare.speed import measure_speed
from torchcaps.experiments.compare.training import CellStopped, compute_cell
from torchcaps.experiments.framework.storage import FOREIGN_FILES, read_json, write_json
from torchcaps.training.callbacks import Callback
from torchcaps.training.lock import RunLock
from torchcaps.training.run import describe_environment

PLAN = "compare.json"


class Progress:
    """Is told what happens; its methods do nothing."""

    def on_estimate(self, estimate: Estimate) -> None:
        """The time of all cells that are left was estimated."""

    def on_cell_begin(self, cell: Cell) -> None:
        """A cell starts."""

    def training_callback(self) -> Callback:
        """The callback of the training of the current cell."""
        return Callback()

    def on_cell_end(self, cell: Cell, result: dict[str, Any]) -> None:
        """A cell is finished or has failed; `result` is what its file holds."""


def compare(
    form: Form,
    networks: Sequence[Network],
    out: str | Path,
    *,
    seeds: int | None = None,
    minutes: float | None = None,
    parts: Sequence[str] | None = None,
    known: Mapping[str, dict[str, Any]] | None = None,
    data_dir: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Compute all cells of a comparison that are not finished in the folder.

    A cell that fails is recorded with its message, and the others go on.

    Args:
        form: data and budget, see `FORMS`.
        networks: see `choose_networks`.
        out: folder of the comparison. Finished cells in it are kept and not computed again.
        seeds: number of seeds; by default that of the form.
        minutes: time limit for the training of one cell; by default that of the form. A training that takes
            longer is recorded as failed, and continued when the comparison is run again.
        parts: parts of the data to compute, `"speed"` included; by default all.
        known: results of cells by the digest of their settings, see `read_record`. They count as finished.
        data_dir: folder of the data sets, if not in the usual places.
        progress: is told what happens.

    Returns:
        `"ended"`, or `"interrupted"` if the user has stopped it; then the same call continues it.
    """
    out, progress = Path(out), progress or Progress()
    seeds = form.seeds if seeds is None else seeds
    seeds = check_count("seeds", seeds)
    seconds = 60 * check_number("minutes", form.minutes if minutes is None else minutes, above=True)
    for part in parts or ():
        check_choice("part", part, (*form.parts, SPEED))
    open_folder(out)
    lock = RunLock(out)
    try:
        cells = plan_cells(form, networks, seeds, parts)
        plan: dict[str, Any] = {
            "form": form.name,
            "frame": frame_of(form),
            "seeds": seeds,
            "minutes": seconds / 60,
            "planned": [network._asdict() for network in networks],
        }
        # The command may name private folders; the report gives one that computes the same networks.
        environment = {key: value for key, value in describe_environment().items() if key != "command"}
        write_json(out / PLAN, {**plan, "environment": environment, "seconds": spent(out)})
        # An error here, such as missing data, is the same for all cells, and the user has to know at once.
        wanted = {cell.part for cell in cells}
        images = {
            name: load_part(name, part, data_dir) for name, part in form.parts.items() if name in wanted
        }
        take_known(out, cells, known or {})
        left = [cell for cell in cells if not is_finished(out, cell)]
        progress.on_estimate(estimate_cells(form, left, images, len(cells)))
        for cell in left:
            progress.on_cell_begin(cell)
            result = run_cell(cell, form, images, out, seconds, progress)
            progress.on_cell_end(cell, result)
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        lock.release()
    return "ended"


def take_known(out: Path, cells: Sequence[Cell], known: Mapping[str, dict[str, Any]]) -> None:
    """Write the results of cells that another folder or machine has computed with the same settings."""
    for cell in cells:
        result = known.get(digest_of(cell.identity()))
        if result is not None and not is_finished(out, cell):
            write_result(out, cell, {"status": "ended", **result})


def open_folder(out: Path) -> None:
    """Create the folder, or check that it holds a comparison."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: give a folder, or a new name")
    foreign = [name for name in (*FOREIGN_FILES, "study.json") if (out / name).exists()]
    if foreign and not (out / PLAN).is_file():
        raise ValueError(f"{out} holds another experiment ({', '.join(foreign)}): give another --out")
    out.mkdir(parents=True, exist_ok=True)


def spent(out: Path) -> float:
    """Seconds that earlier runs in this folder took."""
    path = out / PLAN
    return read_json(path).get("seconds", 0.0) if path.is_file() else 0.0


def run_cell(
    cell: Cell, form: Form, images: dict[str, PartData], out: Path, seconds: float, progress: Progress
) -> dict[str, Any]:
    """Compute a cell and write its result, or the message of its failure.

    Raises:
        KeyboardInterrupt: the user has stopped it; its training is saved.
    """
    started = time.monotonic()
    folder = out / TRAINING / cell.name
    result: dict[str, Any] = {"status": "ended"}
    try:
        if cell.part == SPEED:
            result |= {"values": measure_speed(cell)}
        else:
            result |= compute_cell(
                cell,
                form.parts[cell.part],
                images[cell.part],
                folder,
                seconds=seconds,
                callback=progress.training_callback(),
            )
    except CellStopped as stop:
        if stop.status == "interrupted":
            raise KeyboardInterrupt from None
        message = (
            f"not finished within {seconds / 60:g} minutes: run again to continue it, or raise --minutes"
        )
        result = {"status": "failed", "message": message}
    except Exception as error:  # whatever is wrong with this cell, the others go on
        result = {"status": "failed", "message": f"{type(error).__name__}: {error}"}
    result["seconds"] = round(time.monotonic() - started, 2)
    write_result(out, cell, result)
    if result["status"] == "ended":
        shutil.rmtree(folder, ignore_errors=True)
    plan = read_json(out / PLAN)
    write_json(out / PLAN, plan | {"seconds": round(plan["seconds"] + result["seconds"], 1)})
    written = read_result(out, cell)
    assert written is not None
    return written
