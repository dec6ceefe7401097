"""Experiment trackers: Weights & Biases and MLflow by way of Accelerate, and TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchcaps._checks import check_choice
from torchcaps._extras import require
from torchcaps._files import replaced_on_success
from torchcaps.training.callbacks import Callback, Plan
from torchcaps.training.checkpoint import Position
from torchcaps.training.recipe import Recipe
from torchcaps.training.run import flatten_numbers

TRACKERS = ("wandb", "tensorboard", "mlflow")
PROJECT = "torchcaps"
FILE = "tracking.json"


def tracking_callbacks(names: Sequence[str], recipe: Recipe) -> list[Callback]:
    """The callbacks that send the metrics of a run to trackers.

    Args:
        names: some of `TRACKERS`. Events for TensorBoard are always written to the run's folder where it is
            installed, so for it there is no callback.
        recipe: what is trained; its settings are sent as the configuration.

    Raises:
        ValueError: there is no such tracker.
        MissingExtraError: its package is not installed.

    Example:
        >>> from torchcaps.training import default_recipe
        >>> tracking_callbacks(["tensorbord"], default_recipe("capsnet", "mnist"))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: unknown --track 'tensorbord': did you mean 'tensorboard'? ...
    """
    callbacks: list[Callback] = []
    for name in dict.fromkeys(names):
        check_choice("--track", name, TRACKERS)
        require(name, extra=name, purpose=f"--track {name}")
        if name != "tensorboard":
            callbacks.append(Tracking(name, recipe))
    return callbacks


class Tracking(Callback):
    """Sends every record of a run to a tracker.

    The tracker's own id of the run is kept in `tracking.json` in the run's folder, so that a resumed run
    continues it.

    Args:
        name: `"wandb"` or `"mlflow"`.
        recipe: its settings are the configuration of the run.
    """

    def __init__(self, name: str, recipe: Recipe) -> None:
        self.name, self.recipe = name, recipe
        self.tracker: Any = None

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """Start the tracker, or continue where the run was stopped."""
        folder = Path(plan.run)
        ids = read_ids(folder)
        self.tracker = make_tracker(self.name, folder.name, ids.get(self.name))
        if hasattr(self.tracker, "start"):  # before 1.8, Accelerate's trackers start when they are made
            self.tracker.start()
        ids[self.name] = run_id(self.tracker)
        with replaced_on_success(folder / FILE) as temporary:
            temporary.write_text(json.dumps(ids) + "\n", encoding="utf-8")
        if not position.step:
            # MLflow refuses to change a parameter of a run, so a resumed one keeps its first values.
            settings = flatten_settings(self.recipe.to_table())
            self.tracker.store_init_configuration(settings | {"training.batch_size": plan.batch_size})

    def on_record(self, numbers: dict[str, Any]) -> None:
        """Send one record."""
        values = {name: value for name, value in flatten_numbers(numbers) if name != "step"}
        self.tracker.log(values, step=numbers["step"])

    def on_train_end(self, result: dict[str, Any]) -> None:
        """Send the final tests of a run that has ended."""
        if result["status"] == "ended":
            self.tracker.log(dict(flatten_numbers({"final": result["metrics"]})), step=result["step"])

    def close(self) -> None:
        """Let the tracker send what is left."""
        if self.tracker is not None:
            self.tracker.finish()
            self.tracker = None


def make_tracker(name: str, run: str, known_id: str | None) -> Any:
    """Accelerate's tracker; `known_id` is the tracker's own id of a run that is resumed."""
    from accelerate.tracking import MLflowTracker, WandBTracker

    if name == "wandb":
        resumed = {} if known_id is None else {"id": known_id, "resume": "allow"}
        return WandBTracker(PROJECT, name=run, **resumed)
    return MLflowTracker(PROJECT, run_name=run, run_id=known_id)


def run_id(tracker: Any) -> str:
    """The tracker's own id of its run."""
    run = tracker.tracker
    return run.id if tracker.name == "wandb" else run.info.run_id


def read_ids(folder: Path) -> dict[str, str]:
    """The ids of a run in all trackers it was sent to."""
    path = folder / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def flatten_settings(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """All settings of a recipe by dotted key; lists become text, which every tracker takes.

    >>> flatten_settings({"seed": 0, "model": {"name": "capsnet", "freeze": ["conv"], "pretrained": None}})
    {'seed': 0, 'model.name': 'capsnet', 'model.freeze': "['conv']"}
    """
    settings: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            settings |= flatten_settings(value, f"{prefix}{name}.")
        elif value is not None:
            settings[prefix + name] = value if isinstance(value, (bool, int, float, str)) else str(value)
    return settings
