"""What an experiment is (`Claim`), and one run of it (`Study`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

import torchcaps
from torchcaps.errors import RunError
from torchcaps.experiments.framework.items import Figure, ReportItem, Table, Text, Verdict, table_json
from torchcaps.experiments.framework.reuse import reuse_run
from torchcaps.experiments.framework.storage import (
    as_json,
    check_same_recipe,
    epoch_files,
    file_name,
    finished_result,
    read_cached,
    read_json,
    write_json,
)
from torchcaps.models import Model, list_pretrained, pretrained_path
from torchcaps.models.weights import load_weights
from torchcaps.training.callbacks import Callback
from torchcaps.training.recipe import Recipe
from torchcaps.training.trainer import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure


@dataclass(frozen=True)
class Claim:
    """A claim about capsule networks from a paper or an essay, and the experiment that tests it.

    Attributes:
        name: name of the experiment for `torchcaps reproduce`.
        claim: the claim, in one sentence.
        source: where it was published.
        data: what the full form needs, such as `"MNIST"`.
        quick_data: what the quick form uses; it needs no download.
        minutes: estimated time of the full form on 2 CPU cores.
        run: the experiment; it adds its results to the study.
        judge: decides the claim from the numbers of the study alone: `True`, `False` or `None` for "in part",
            and a sentence. With several seeds it is given the means. `run` then adds no verdict on the claim
            itself, only on further questions. Without it, `run` adds the verdict, and several seeds are
            counted.
        deterministic: whether every seed gives the same numbers, so that one is enough.
        published: the published numbers in a few words; by default the marked rows of the tables.
        figure: name of the figure that stands for the claim; by default the first one.
        seeds: how many seeds its record has; by default 5 if it takes less than 10 minutes, otherwise 3.
    """

    name: str
    claim: str
    source: str
    data: str
    quick_data: str
    minutes: int
    run: Callable[[Study], None]
    judge: Callable[[Mapping[str, float]], tuple[bool | None, str]] | None = None
    deterministic: bool = False
    published: str = ""
    figure: str = ""
    seeds: int | None = None


class StudyStopped(Exception):  # noqa: N818 - not an error
    """The study was stopped and its state saved; running it again continues it.

    Args:
        message: where it was stopped.
        status: `"budget"` or `"interrupted"`.
    """

    def __init__(self, message: str, status: str = "budget") -> None:
        super().__init__(message)
        self.status = status


class Study:
    """One run of an experiment, in its own folder.

    Everything slow goes through `train` or `cached`, which store their results: a study that was stopped
    continues from there when it runs again. The report shows all items in the order they were added.

    Args:
        out: the folder.
        quick: small data and short training, at most 3 minutes on 2 cores.
        seed: seed of all random numbers.
        data_dir: folder of the data sets, if not in the usual places.
        deadline: value of `time.monotonic()` at which to save and stop.
        first: numbers of seed 0, for the other seeds of an experiment; see `rates_to_try`.
        make_callback: makes the callback of each training run.
        log: called with a line of text when a step starts.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     study = Study(folder, quick=True)
        ...     study.cached("answer", lambda: {"value": 42})["value"]
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
        first: Mapping[str, float] | None = None,
        make_callback: Callable[[], Callback] = Callback,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.out = Path(out)
        self.quick, self.seed, self.data_dir = quick, seed, data_dir
        self.deadline, self.make_callback, self.log = deadline, make_callback, log
        self.first = {} if first is None else first
        self.items: list[ReportItem] = []
        self.numbers: dict[str, Any] = {}
        self.recipes: dict[str, Any] = {}
        self.data = ""
        # Cached values are computed again when any of these has changed.
        self.dependencies: dict[str, Any] = {"torchcaps": torchcaps.__version__}
        self.out.mkdir(parents=True, exist_ok=True)

    def train(self, name: str, recipe: Recipe, *, keep_epochs: bool = False) -> Model:
        """Train a network, or load the one that this study, or another with the same recipe, has trained.

        Args:
            name: of the training run inside the study, such as `"capsules"`.
            recipe: what to train and how; the seed of the study is added to its seed.
            keep_epochs: keep the model of every epoch too, for `epoch_paths`.

        Returns:
            The final model, in `eval` mode.

        Raises:
            StudyStopped: there was no time to finish the training.
        """
        recipe = recipe.override([f"seed={recipe.seed + self.seed}"])
        if self.quick:
            # bf16 is fast only on some processors, and the quick form has to be quick on all.
            recipe = recipe.override(['training.precision="fp32"'])
        elif self.data_dir is not None:
            recipe = replace(recipe, data=replace(recipe.data, dir=self.data_dir))
        self.recipes[name] = recipe.to_table()
        folder = self.training_folder(name)
        other = reuse_run(self.out, folder, recipe, keep_epochs=keep_epochs)
        if other is not None:
            self.log(f"training {name}: the same as {other}")
        check_same_recipe(folder, recipe)
        if finished_result(folder) is None:
            self.log(f"training {name}: {recipe.model.name} on {recipe.data.name}")
            budget = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            status = train(
                recipe,
                folder,
                resume=True,
                budget=budget,
                keep_epochs=keep_epochs,
                callbacks=[self.make_callback()],
            )["status"]
            if status != "ended":
                raise StudyStopped(f"stopped ({status}) while training {name}", status)
        result = self.training_result(name)
        self.dependencies[name] = result["sha256"]
        return load_weights(folder / result["model"])[0]

    def training_folder(self, name: str) -> Path:
        """The folder of a training run."""
        return self.out / "trained" / file_name(name)

    def training_result(self, name: str) -> dict[str, Any]:
        """The `result.json` of a training run that has ended."""
        return read_json(self.training_folder(name) / "result.json", "model", "sha256")

    def epoch_paths(self, name: str) -> list[Path]:
        """The weight files of all epochs of a training run, in order; `load_weights` reads them."""
        return epoch_files(self.training_folder(name))

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
        self.dependencies[name] = entry["sha256"]
        return load_weights(path)[0]

    def pretrained_or_train(self, name: str, recipe: Recipe) -> Model:
        """The network of a recipe: with the weights that come with torchcaps if there are any, else trained.

        Args:
            name: of the training run, if it has to be trained.
            recipe: what to train and how.
        """
        model, data = recipe.model.name, recipe.data.name
        # The weights that come with torchcaps have one seed; another seed has to show how results vary.
        if not self.seed and (model, data) in {(each["model"], each["data"]) for each in list_pretrained()}:
            return self.pretrained(model, data)
        return self.train(name, recipe)

    def record_settings(self, name: str, **values: Any) -> None:
        """Record the settings of a step that has no recipe; they must stay the same when a study continues.

        Args:
            name: of the step, such as `"scenes"`.
            values: what JSON can hold.

        Raises:
            RunError: the study was started with other settings.
        """
        path = self.out / "settings.json"
        settings = read_json(path) if path.is_file() else {}
        current = as_json(values)
        recorded = settings.setdefault(name, current)
        if recorded != current:
            changed = sorted(
                key for key in recorded.keys() | current if recorded.get(key) != current.get(key)
            )
            raise RunError(
                f"{self.out} was started with other settings of {name} ({', '.join(changed)}): "
                "give another --out, or remove that folder"
            )
        write_json(path, settings)
        self.recipes[name] = self.dependencies[name] = current

    def use_data(self, description: str, data_dir: str | None) -> None:
        """Set the data that the study uses.

        Args:
            description: for the log and the report.
            data_dir: folder of the data sets; `None` for the usual places.
        """
        self.data, self.data_dir = description, data_dir
        self.log(f"data: {description}")

    def cached(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of `compute`, stored in a file for when the study continues.

        It is computed again if a training run or settings that the study used before have changed, or the
        version of torchcaps.

        Args:
            name: of the result, unique in the study.
            compute: returns a dictionary that JSON can hold.
        """
        path = self.out / "cache" / f"{file_name(name)}.json"
        value = read_cached(path, self.dependencies)
        if value is None:
            self.check_deadline(f"before {name}")
            self.log(name)
            dependencies = as_json(self.dependencies)
            value = as_json(compute())
            write_json(path, {"dependencies": dependencies, "value": value})
        return value

    def check_deadline(self, where: str) -> None:
        """Raise `StudyStopped` if the time is used up."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise StudyStopped(f"stopped (budget) {where}")

    def add_number(self, name: str, value: float) -> None:
        """Add a number to `result.json`; dots in the name make groups, as in `capsules.error`."""
        self.numbers[name] = value

    def add_text(self, text: str) -> None:
        """Add a paragraph to the report."""
        self.items.append(Text(text))

    def add_table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        caption: str,
        marked: Sequence[int] = (),
    ) -> None:
        """Add a table to the report.

        Args:
            title: heading of the table.
            columns: column names; units in brackets, as in `error (%)`.
            rows: cells: text, numbers (shown with 4 significant digits), or `None` for an empty cell.
            caption: what the numbers mean.
            marked: rows to shade, such as published numbers.
        """
        self.items.append(Table(title, list(columns), [list(row) for row in rows], caption, list(marked)))

    def add_figure(self, name: str, figure: MatplotlibFigure, *, caption: str) -> None:
        """Add a figure to the report; it is written as PNG and SVG."""
        from torchcaps.experiments.framework.figures import save_figure

        self.items.append(Figure(name, save_figure(figure, self.out / name), caption))

    def add_animation(
        self, name: str, frames: Sequence[Any], *, caption: str, milliseconds: int = 400
    ) -> None:
        """Add an animation to the report: figures, written as the frames of a GIF."""
        from torchcaps.experiments.framework.figures import save_animation

        path = save_animation(frames, self.out / f"{name}.gif", milliseconds)
        self.items.append(Figure(name, path, caption))

    def add_verdict(self, holds: bool | None, sentence: str, *, question: str = "") -> None:
        """Add an answer to the report.

        Args:
            holds: `True`, `False`, or `None` for "in part".
            sentence: the reason, with the numbers.
            question: what is answered, such as `"Is routing the reason?"`; empty for the claim itself.
        """
        self.items.append(Verdict(holds, sentence, question))

    def results(self) -> dict[str, Any]:
        """Numbers, verdicts, tables, names of figures and recipes, as JSON can hold them."""
        verdicts = [each for each in self.items if isinstance(each, Verdict)]
        return {
            "numbers": self.numbers,
            "verdicts": [
                {
                    "holds": each.holds,
                    "heading": each.heading,
                    "sentence": each.sentence,
                    "question": each.question,
                }
                for each in verdicts
            ],
            "tables": [table_json(each) for each in self.items if isinstance(each, Table)],
            "figures": [
                {"name": each.name, "file": each.path.relative_to(self.out).as_posix()}
                for each in self.items
                if isinstance(each, Figure)
            ],
            "recipes": self.recipes,
        }


def count_parameters(model: nn.Module) -> int:
    """How many parameters a network has.

    >>> count_parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in model.parameters())
