"""What an experiment works with: it trains through it, and leaves numbers, figures and a verdict with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torchcaps
from torchcaps.errors import RunError
from torchcaps.experiments.workbench.found import Figure, Found, Table, Text, Verdict
from torchcaps.experiments.workbench.on_disk import plain, read_kept, read_table, write_table
from torchcaps.experiments.workbench.trained import check_same_recipe, epoch_files, result_of
from torchcaps.models import Model, list_pretrained, pretrained_path
from torchcaps.models.weights import load_weights
from torchcaps.training.callbacks import Callback, Stopper
from torchcaps.training.recipe import Recipe
from torchcaps.training.trainer import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """The experiment was stopped, saved; the same command goes on.

    Args:
        message: when it was stopped.
        reason: `"budget"` or `"interrupted"`.
    """

    def __init__(self, message: str, reason: str = "budget") -> None:
        super().__init__(message)
        self.reason = reason


class Study:
    """One run of an experiment, in its own folder.

    Whatever takes long goes through `train` or `keep`, which remember what they have done: an interrupted
    experiment started again goes on where it stopped. What is to be seen is added in the order of the report.

    Args:
        out: the folder.
        quick: small data and short training, to be done within 3 minutes on 2 cores.
        seed: of every random number.
        data_dir: where data sets lie, if not in the usual places.
        deadline: the clock (`time.monotonic()`) at which to stop, saved.
        watch: makes what is told of each training.
        say: is told what is being done.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     study = Study(folder, quick=True)
        ...     study.keep("answer", lambda: {"value": 42})["value"]
        42
    """

    def __init__(
        self,
        out: str | Path,
        *,
        quick: bool,
        seed: int = 0,
        data_dir: str | None = None,
        deadline: float | None = None,
        watch: Callable[[], Callback] = Callback,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.out = Path(out)
        self.quick, self.seed, self.data_dir = quick, seed, data_dir
        self.deadline, self.watch, self.say = deadline, watch, say
        self.found: list[Found] = []
        self.numbers: dict[str, Any] = {}
        self.recipes: dict[str, Any] = {}
        self.data = ""
        # What numbers rest on: they are computed again if it has changed since they were kept.
        self.basis: dict[str, Any] = {"torchcaps": torchcaps.__version__}
        self.out.mkdir(parents=True, exist_ok=True)

    def train(self, name: str, recipe: Recipe, *, keep_epochs: bool = False) -> Model:
        """Train a network, or take the one that this study trained before; it is returned in `eval` mode.

        The recipe's seed is moved on by the study's. The model is the last one, as in the run's result.

        Args:
            name: of the training inside the study, such as `"capsules"`.
            recipe: what to train and how.
            keep_epochs: keep the model of every epoch too; `epochs` gives them.
        """
        recipe = recipe.override([f"seed={recipe.seed + self.seed}"])
        if self.quick:
            # Half precision is fast only on some processors, and a quick form is to be quick on all.
            recipe = recipe.override(['training.precision="fp32"'])
        elif self.data_dir is not None:
            recipe = replace(recipe, data=replace(recipe.data, dir=self.data_dir))
        self.recipes[name] = recipe.to_table()
        folder = self.out / "trained" / name
        check_same_recipe(folder, recipe)
        if result_of(folder) is None:
            self.say(f"training {name}: {recipe.model.name} on {recipe.data.name}")
            left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            status = train(
                recipe, folder, resume=True, budget=left, keep_epochs=keep_epochs, callbacks=[self.watch()]
            )["status"]
            if status != "ended":
                raise Interrupted(f"stopped ({status}) while training {name}", status)
        result = read_table(folder / "result.json", "model", "sha256")
        self.basis[name] = result["sha256"]
        return load_weights(folder / result["model"])[0]

    def epochs(self, name: str) -> list[Path]:
        """The models of a training's epochs in order, if it kept them; `load_weights` reads each."""
        return epoch_files(self.out / "trained" / name)

    def pretrained(self, model: str, data: str) -> Model:
        """A network with the weights that come with torchcaps, in `eval` mode."""
        path, name = pretrained_path(model, data), f"{model} on {data}"
        (entry,) = (each for each in list_pretrained() if (each["model"], each["data"]) == (model, data))
        self.recipes[name] = {
            "pretrained": data,
            "model": {"name": model},
            "sha256": entry["sha256"],
            "epochs": entry["trained"]["epochs"],
        }
        self.basis[name] = entry["sha256"]
        return load_weights(path)[0]

    def settings(self, name: str, **values: Any) -> None:
        """Write down with what something was done that has no recipe; a study that goes on must do the same.

        Args:
            name: of what was done, such as `"scenes"`.
            values: plain ones.
        """
        path = self.out / "settings.json"
        known = read_table(path) if path.is_file() else {}
        now = plain(values)
        before = known.setdefault(name, now)
        if before != now:
            changed = sorted(key for key in before.keys() | now if before.get(key) != now.get(key))
            raise RunError(
                f"{self.out} was begun with other settings of {name} ({', '.join(changed)}): "
                "give another --out, or remove that folder"
            )
        write_table(path, known)
        self.recipes[name] = self.basis[name] = now

    def uses(self, data: str) -> None:
        """Say on which data the study works, there and in the report."""
        self.data = data
        self.say(f"data: {data}")

    def keep(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `compute` returns, a table of plain values, kept on the disk for when the study goes on.

        It is computed again if it rests on something else by then: a training or settings that the study
        asked for before, or the version of torchcaps.
        """
        path = self.out / "kept" / f"{name}.json"
        kept = read_kept(path, self.basis)
        if kept is None:
            self.check_time(f"before {name}")
            self.say(name)
            basis = plain(self.basis)
            kept = plain(compute())
            write_table(path, {"basis": basis, "value": kept})
        return kept

    def check_time(self, where: str) -> None:
        """Stop here if the budget is used up."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise Interrupted(f"stopped (budget) {where}")

    def number(self, name: str, value: float) -> None:
        """A number for `result.json`; dots make groups, as in `capsules.error`."""
        self.numbers[name] = value

    def text(self, text: str) -> None:
        """A paragraph of the report."""
        self.found.append(Text(text))

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        caption: str,
        marked: Sequence[int] = (),
    ) -> None:
        """A table of the report.

        Args:
            title: over it.
            columns: their names; a unit in brackets, as in `error (%)`.
            rows: cells: text, numbers (shown to 4 figures), or `None` where there is nothing to say.
            caption: what to see in it.
            marked: rows to set apart, such as the published ones.
        """
        self.found.append(Table(title, list(columns), [list(row) for row in rows], caption, list(marked)))

    def figure(self, name: str, drawing: Drawing, *, caption: str) -> None:
        """A figure of the report, written as PNG and SVG; the caption says what to see in it."""
        from torchcaps.experiments.workbench.drawing import save_figure

        self.found.append(Figure(name, save_figure(drawing, self.out / name), caption))

    def animation(self, name: str, frames: Sequence[Any], *, caption: str, milliseconds: int = 400) -> None:
        """A moving figure of the report: drawings, written one after the other as a GIF."""
        from torchcaps.experiments.workbench.drawing import save_animation

        path = save_animation(frames, self.out / f"{name}.gif", milliseconds)
        self.found.append(Figure(name, path, caption))

    def verdict(self, holds: bool | None, sentence: str, *, question: str = "") -> None:
        """What came out: the claim holds here, or does not, or (`None`) in part; and one plain sentence.

        What is judged beside the claim itself is a `question`, such as `"Is it routing?"`: yes, no or in
        part.
        """
        self.found.append(Verdict(holds, sentence, question))

    def result(self) -> dict[str, Any]:
        """All that was found, as plain tables."""
        verdicts = [each for each in self.found if isinstance(each, Verdict)]
        return {
            "numbers": self.numbers,
            "verdicts": [
                {"holds": each.holds, "heading": each.heading, "sentence": each.sentence} for each in verdicts
            ],
            "tables": [
                {"title": each.title, "columns": each.columns, "rows": each.rows}
                for each in self.found
                if isinstance(each, Table)
            ],
            "recipes": self.recipes,
        }


def deadline_of(budget: float | None) -> float | None:
    """The clock at which a budget of seconds that starts now is used up."""
    return Stopper(budget).deadline
