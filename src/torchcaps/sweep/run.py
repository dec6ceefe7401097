"""Run a sweep, or continue it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchcaps._checks import check_count
from torchcaps._files import replaced_on_success
from torchcaps.errors import RunError
from torchcaps.sweep.space import Range, Space, combinations, folder_name, with_values
from torchcaps.sweep.summary import Row, make_row, summarize
from torchcaps.training.callbacks import Callback
from torchcaps.training.recipe import Recipe
from torchcaps.training.task import recipe_task
from torchcaps.training.trainer import train

PLAN, VAL_FRACTION = "sweep.json", 0.1


class SweepStoppedError(Exception):
    """A run was interrupted, and the sweep with it."""


class Sweep:
    """A recipe, the settings to vary, and the folder of the runs.

    Each combination of values has a folder, and in it one folder per seed, which is an ordinary run. Calling
    a sweep again skips the runs that have ended and resumes the others.

    Args:
        recipe: what stays the same. Without validation images, a tenth of the training images is held out.
        space: the values of each key, see `parse_space`.
        out: the folder.
        seeds: number of seeds; they count from the recipe's.
        callbacks: makes the callbacks of each run.
        report: is told in one line what comes next.
    """

    def __init__(
        self,
        recipe: Recipe,
        space: Space,
        out: str | Path,
        *,
        seeds: int = 3,
        callbacks: Callable[[], Sequence[Callback]] = tuple,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        if not space:
            raise ValueError("a sweep needs at least one --grid key=value,value")
        check_count("--seeds", seeds)
        if not recipe.data.val_fraction:
            recipe = replace(recipe, data=replace(recipe.data, val_fraction=VAL_FRACTION))
            report(f"the recipe has no validation images: data.val_fraction={VAL_FRACTION} is used")
        self.recipe, self.space, self.out, self.seeds = recipe, space, Path(out), seeds
        self.callbacks, self.report = callbacks, report

    def check(self) -> None:
        """Check every value before the first run: its key and type, the model, and its data.

        Raises:
            ValueError: a value does not fit; the message names the combination.
        """
        self._check_folder()
        for values in self._samples():
            try:
                recipe_task(with_values(self.recipe, values))
            except (ValueError, TypeError) as fault:
                shown = ", ".join(f"{key}={value}" for key, value in values.items())
                raise ValueError(f"--grid {shown}: {fault}") from None

    def run_grid(self) -> dict[str, Any]:
        """Run all combinations; returns the summary, which is also in `sweep.json`."""
        self.check()
        lists = {key: values for key, values in self.space.items() if not isinstance(values, Range)}
        chosen = list(combinations(lists))
        rows: list[Row] = []
        for number, values in enumerate(chosen, 1):
            rows.append(self.run_values(values, number, len(chosen)))
            summary = self.write(rows)
        return summary

    def run_values(self, values: Mapping[str, Any], number: int, total: int) -> Row:
        """Run all seeds of one combination; a run that fails does not stop the others.

        Args:
            values: the combination.
            number: its place among all combinations, from 1.
            total: how many combinations there are.

        Raises:
            SweepStoppedError: the user has interrupted a run; its state is saved.
        """
        recipe, folder = with_values(self.recipe, values), self.out / folder_name(values)
        failures: dict[int, str] = {}
        for run, seed in enumerate(self._seeds(), (number - 1) * self.seeds + 1):
            path = folder / f"seed-{seed}"
            if is_finished(path):
                continue
            settings = ", ".join(f"{key}={value}" for key, value in values.items())
            self.report(f"[run {run} of {total * self.seeds}] {settings}, seed {seed}")
            try:
                result = train(replace(recipe, seed=seed), path, resume=True, callbacks=self.callbacks())
            except RunError as fault:
                failures[seed] = str(fault)
                self.report(f"failed: {fault}")
                continue
            if result["status"] != "ended":
                raise SweepStoppedError
        return make_row(values, folder, self._seeds(), recipe.stop.metric, failures)

    def write(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Write and return the summary of these combinations."""
        summary = summarize(rows)
        plan = {"recipe": self.recipe.to_table(), "seeds": self.seeds, **summary}
        self.out.mkdir(parents=True, exist_ok=True)
        with replaced_on_success(self.out / PLAN) as temporary:
            temporary.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
        return plan

    def _seeds(self) -> range:
        return range(self.recipe.seed, self.recipe.seed + self.seeds)

    def _samples(self) -> Iterator[dict[str, Any]]:
        """All combinations of a grid; of a search, each value and both ends of each range once."""
        choices = {
            key: [values.low, values.high] if isinstance(values, Range) else values
            for key, values in self.space.items()
        }
        if not any(isinstance(values, Range) for values in self.space.values()):
            yield from combinations(choices)
            return
        for place in range(max(map(len, choices.values()))):
            yield {key: values[min(place, len(values) - 1)] for key, values in choices.items()}

    def _check_folder(self) -> None:
        plan = self.out / PLAN
        if plan.is_file():
            before = json.loads(plan.read_text(encoding="utf-8"))["recipe"]
            if Recipe.from_table(before) != self.recipe:
                raise ValueError(
                    f"{self.out} holds a sweep of another recipe: give another folder with --out"
                )
        elif self.out.is_dir() and any(self.out.iterdir()) and not self._only_runs():
            raise ValueError(f"{self.out} holds something else than a sweep: give another folder with --out")

    def _only_runs(self) -> bool:
        return all(list(each.glob("seed-*")) for each in self.out.iterdir())


def is_finished(path: Path) -> bool:
    """Whether the run in a folder has ended."""
    result = path / "result.json"
    return result.is_file() and json.loads(result.read_text(encoding="utf-8"))["status"] == "ended"
