"""A run's folder in the lab: its network, some of its test images, and its metrics while it is trained."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torchcaps.errors import RunError
from torchcaps.lab.model_store import LoadedModel
from torchcaps.lab.schemas import (
    ExampleInput,
    PackedImage,
    RunMetricsResponse,
    RunPoint,
    RunResponse,
    State,
)
from torchcaps.models.hub import WEIGHTS as SAVED_WEIGHTS
from torchcaps.models.weights import load_weights
from torchcaps.training.data import Images, eval_split, load_split
from torchcaps.training.lock import is_written
from torchcaps.training.prediction import Predictor
from torchcaps.training.publish.record import recipe_name
from torchcaps.training.recipe import Recipe
from torchcaps.training.run import reported_model, sessions_of

RUN_ID = "run"
THUMBNAILS = 20


class RunWeightsError(Exception):
    """The run has no weights that can be used yet."""


class LabRun:
    """The run in a folder that `torchcaps train` made, finished or not.

    Args:
        folder: of the run.

    Raises:
        RunError: the folder holds no run, its weights are damaged, or it has no weights and is not trained
            now; the message says what to do.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.recipe = read_recipe(self.folder)
        self._changed: int | None = None
        self._predictor: Predictor | None = None
        self.network: LoadedModel | None = None
        self._examples: list[ExampleInput] | None = None
        self.refresh()
        if self.network is None and self.state != "running":
            raise RunError(
                f"{self.folder} holds no trained model yet (last.safetensors) and is not being trained: "
                f"continue it with torchcaps train --resume --out {self.folder}"
            )

    @property
    def name(self) -> str:
        """The last part of the folder's path."""
        return self.folder.resolve().name

    @property
    def state(self) -> State:
        """Whether a process trains it, or it has ended by its recipe, or it was stopped before."""
        if is_written(self.folder):
            return "running"
        return "finished" if read_result(self.folder).get("status") == "ended" else "stopped"

    @property
    def predictor(self) -> Predictor:
        """The network with the preprocessing of image files.

        Raises:
            RunError: there are no weights yet.
        """
        if self._predictor is None:
            raise RunError(f"{self.folder} holds no trained model yet: the first is saved within two minutes")
        return self._predictor

    def refresh(self) -> bool:
        """Load the weights if they are new; whether they were.

        Raises:
            RunError: the weights cannot be used.
        """
        try:
            path = reported_model(self.folder)
            changed = path.stat().st_mtime_ns
        except (RunError, FileNotFoundError):
            return False
        if changed == self._changed:
            return False
        model, card = load_weights(path)
        facts = {**card.facts, "recipe": recipe_name(self.recipe)}
        if self.state == "finished":
            facts["test"] = read_result(self.folder).get("metrics", {}).get("test", facts.get("test"))
        card = replace(card, facts=facts)
        self._changed, self._predictor = changed, Predictor(model, card)
        self.network = LoadedModel(
            model,
            card,
            self.recipe.data.name,
            name=RUN_ID,
            loss=self.recipe.loss.name,
            test_images=self.examples,
        )
        return True

    def info(self) -> RunResponse:
        """What is trained on what, and how far it is."""
        card = None if self.network is None else self.network.card
        return RunResponse(
            name=self.name,
            state=self.state,
            model=self.recipe.model.name,
            data=self.recipe.data.name,
            epochs=self.recipe.training.epochs,
            network=None if card is None else RUN_ID,
            step=None if card is None else card.facts.get("step"),
            classes=[] if card is None else list(card.classes),
            in_channels=None if card is None else card.in_channels,
            image_size=None if card is None else list(card.image_size),
        )

    def examples(self) -> list[ExampleInput]:
        """Some test images; none if the data set cannot be read here."""
        if self._examples is None:
            try:
                images = load_split(self.recipe.data, eval_split(self.recipe.data))
                self._examples = [*spread_over_classes(images)]
            except (RunError, ValueError, OSError, ImportError):
                self._examples = []
        return self._examples

    def metrics(self, after: int, session: int) -> RunMetricsResponse:
        """The lines that were written after a place in the file.

        Args:
            after: the place, `next` of the previous response; 0 for all lines.
            session: that of the previous response. A resumed run writes some lines again, so that another
                session starts from the first line.
        """
        current = len(sessions_of(self.folder))
        content = read_bytes(self.folder / "metrics.jsonl")
        reset = session != current or after > len(content)
        start = 0 if reset else after
        end = content.rfind(b"\n") + 1  # a line may be half written
        points = [*read_points(content[start:end])]
        return RunMetricsResponse(
            state=self.state, points=points, next=max(start, end), session=current, reset=reset
        )


def read_recipe(folder: Path) -> Recipe:
    """The recipe of a run.

    Raises:
        RunError: the folder holds no run, or one that cannot be read.
    """
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder; give one that torchcaps train made")
    path = folder / "recipe.toml"
    if not path.is_file() and (folder / SAVED_WEIGHTS).is_file():
        raise RunError(
            f"{folder} is a folder of save_pretrained, which has no curves: give the run's own folder; "
            "torchcaps predict, parse, evaluate, export and serve take this one"
        )
    if not path.is_file():
        raise RunError(
            f"{folder} is not the folder of a run: it holds no recipe.toml; torchcaps train makes one"
        )
    try:
        return Recipe.from_file(path)
    except (ValueError, OSError) as fault:
        raise RunError(f"{path} cannot be read: {fault}") from None


def read_result(folder: Path) -> dict[str, Any]:
    """What `result.json` holds; nothing if there is none, or if it is being written."""
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def read_bytes(path: Path) -> bytes:
    """The content of a file, empty if there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def read_points(lines: bytes) -> Iterator[RunPoint]:
    """The metrics of complete lines; what is no such line is left out.

    >>> [point.loss for point in read_points(b'{"step": 100, "epoch": 1, "loss": 0.5}')]
    [0.5]
    """
    for line in lines.splitlines():
        try:
            record = json.loads(line)
            step, epoch = int(record["step"]), int(record["epoch"])
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
        tested = record.get("validation") or record.get("test")
        yield RunPoint(
            step=step,
            epoch=epoch,
            **{name: number(record, name) for name in ("loss", "accuracy", "lr", "images_per_second")},
            **{f"epoch_{name}": number(record.get("train"), name) for name in ("loss", "accuracy")},
            **{f"test_{name}": number(tested, name) for name in ("loss", "accuracy")},
        )


def number(table: Any, name: str) -> float | None:
    """A finite number of a table, or `None`."""
    value = table.get(name) if isinstance(table, Mapping) else None
    valid = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(f"{value:.6g}") if valid else None


def spread_over_classes(images: Images) -> Iterator[ExampleInput]:
    """Images of many classes: from each run of the set one, evenly spaced."""
    count = len(images)
    names = images.classes or ()
    for index in torch.linspace(0, count - 1, min(THUMBNAILS, count)).round().long().unique().tolist():
        image, label = images[index]
        first = int(torch.as_tensor(label).reshape(-1)[0])
        name = names[first] if first < len(names) else str(first)
        yield ExampleInput(label=name, image=PackedImage.of(torch.as_tensor(image)))
