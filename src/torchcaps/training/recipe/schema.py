"""The tables of a recipe, with their types and checks."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from torchcaps._checks import check_choice, check_count, check_number
from torchcaps._registry import suggest
from torchcaps.data.registry import dataset_info
from torchcaps.models.registry import ALIASES as SIZE_ALIASES
from torchcaps.models.registry import SIZES
from torchcaps.models.weights import OBJECT
from torchcaps.training.recipe.toml import format_toml, parse_setting, parse_toml

LOSSES = ("margin", "spread", "cross_entropy")
# Names that other libraries use.
ALIASES = {"learning_rate": "optimizer.lr", "ema": "training.ema_decay"}
HINTS = {
    **{alias: f"{size} comes from the data set" for alias, size in SIZE_ALIASES.items()},
    **{size: f"{size} comes from the data set" for size in SIZES},
    "size": "it is an option of the data set: write data.options.size",
    "routing": "it is an option of the model: write model.options.routing",
    "iterations": "it is an option of the routing: write model.options.iterations",
}


@dataclass(frozen=True)
class ModelPart:
    """Which network: `options`, `pretrained` and `freeze` go to `create_model`.

    With `pretrained`, training starts from the weights that come with torchcaps for this model and that data
    set; `freeze` names layers that are not trained, or is true for all that have pretrained weights. A model
    that was given to `torchcaps.fit` is called `object:` and its class.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    pretrained: str | None = None
    freeze: bool | list[str] = False

    def __post_init__(self) -> None:
        for option, value in self.options.items():
            size = SIZE_ALIASES.get(option, option)
            if size in SIZES:
                raise ValueError(f"model.options.{option}: {size} comes from the data set")
            try:
                json.dumps(value)
            except TypeError:
                raise ValueError(
                    f"model.options.{option} is a {type(value).__name__}, and a recipe is kept as text: give "
                    "the name of what you registered, such as with @torchcaps.register_routing, or train the "
                    "model as an object with torchcaps.fit"
                ) from None


@dataclass(frozen=True)
class DataPart:
    """Which images: `options` go to `data.load`, `preprocess` to `Preprocess`.

    `val_fraction` is the share of the training images held out to choose a model by. With 0, progress is
    shown on the test images, and the model reported is the last one, not the best. With
    `resample_each_epoch`, a random set (two digits laid over each other) is drawn again for every epoch.
    `limit` trains on that many images, `limit_per_class` on that many of each class: chosen by the seed, and
    a smaller number gives a part of a larger one. Validation and test images are not limited. Data that were
    given to `torchcaps.fit` are called `object:` and their class.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    preprocess: dict[str, Any] = field(default_factory=dict)
    val_fraction: float = 0.0
    resample_each_epoch: bool = False
    limit: int | None = None
    limit_per_class: int | None = None
    dir: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.val_fraction < 1:
            raise ValueError(f"data.val_fraction must be at least 0 and below 1, got {self.val_fraction}")
        if self.resample_each_epoch and not dataset_info(self.name).random:
            raise ValueError(f"data.resample_each_epoch: the images of {self.name} are not random")
        if self.resample_each_epoch and self.val_fraction:
            raise ValueError(
                "data.resample_each_epoch and data.val_fraction exclude each other: "
                "the held-out images would be drawn again"
            )
        for name in ("limit", "limit_per_class"):
            if getattr(self, name) is not None:
                check_count(f"data.{name}", getattr(self, name))
        if self.limit is not None and self.limit_per_class is not None:
            raise ValueError("data.limit and data.limit_per_class exclude each other: set one of them")


@dataclass(frozen=True)
class LossPart:
    """What is minimized: a classification loss, and the weight of the reconstruction loss beside it.

    The margin of the spread loss rises as in `SpreadMarginSchedule(margin_kind, steps=margin_steps)`. A
    function that was given to `torchcaps.fit` is called `object:` and its name.
    """

    name: str = "margin"
    absent_weight: float = 0.5
    reconstruction: float = 0.0
    margin_kind: str = "linear"
    margin_steps: int = 10_000

    def __post_init__(self) -> None:
        if not self.name.startswith(OBJECT):
            check_choice("loss.name", self.name, LOSSES)
        check_number("loss.absent_weight", self.absent_weight)
        check_number("loss.reconstruction", self.reconstruction)
        check_choice("loss.margin_kind", self.margin_kind, ("linear", "sigmoid"))
        check_count("loss.margin_steps", self.margin_steps)


@dataclass(frozen=True)
class OptimizerPart:
    """The optimizer; `momentum` is used by `sgd` alone."""

    name: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        check_choice("optimizer.name", self.name, ("adam", "adamw", "sgd"))
        check_number("optimizer.lr", self.lr)
        check_number("optimizer.weight_decay", self.weight_decay)
        check_number("optimizer.momentum", self.momentum)


@dataclass(frozen=True)
class SchedulePart:
    """What changes over training: the learning rate, and the inverse temperature of EM routing.

    The learning rate is `constant`, `exponential` (× `gamma` every `step_size` steps) or `cosine`, and may
    begin with a linear rise over `warmup_steps`. The cosine falls to 0 in `cycles` equal cycles, each from
    the full rate (warm restarts, Loshchilov and Hutter 2017). A run that has ended can be continued with as
    many epochs again and one cycle more; the result is that of a run with these numbers from the start.

    The inverse temperature is multiplied by a factor that rises linearly from `em_inverse_temperature_start`
    to 1 over `em_inverse_temperature_steps`; tests always use 1.
    """

    name: str = "constant"
    gamma: float = 0.96
    step_size: int = 2000
    warmup_steps: int = 0
    cycles: int = 1
    em_inverse_temperature_start: float = 1.0
    em_inverse_temperature_steps: int = 0

    def __post_init__(self) -> None:
        check_choice("schedule.name", self.name, ("constant", "exponential", "cosine"))
        check_number("schedule.gamma", self.gamma, above=True)
        check_count("schedule.step_size", self.step_size)
        check_count("schedule.warmup_steps", self.warmup_steps, minimum=0)
        check_count("schedule.cycles", self.cycles)
        start, steps = self.em_inverse_temperature_start, self.em_inverse_temperature_steps
        check_number("schedule.em_inverse_temperature_start", start)
        check_count("schedule.em_inverse_temperature_steps", steps, minimum=0)
        if (start != 1) != (steps > 0):
            raise ValueError(
                "schedule.em_inverse_temperature_start and schedule.em_inverse_temperature_steps belong "
                f"together: set both or neither, got {start} and {steps}"
            )


@dataclass(frozen=True)
class TrainingPart:
    """How long, and in which batches.

    `batch_size` counts the images of one update, over all processes; if it is left out, it is chosen for the
    number of training images, see `default_batch_size`. `grad_accum_steps` computes an update in that many
    pieces, which saves memory and changes nothing else. `ema_decay` is the decay of an exponential
    moving average of the weights, which is then the model that is evaluated and saved; 0 for none.
    """

    batch_size: int | None = None
    epochs: int = 10
    grad_accum_steps: int = 1
    ema_decay: float = 0.0
    precision: str = "fp32"
    compile: bool = False

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_count("training.batch_size", self.batch_size)
        for name in ("epochs", "grad_accum_steps"):
            check_count(f"training.{name}", getattr(self, name))
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"training.ema_decay must be at least 0 and below 1, got {self.ema_decay}")
        check_choice("training.precision", self.precision, ("fp32", "bf16"))


@dataclass(frozen=True)
class EvaluationPart:
    """How the model is tested: on `crops`² crops per image too, and on further data sets at the end."""

    batch_size: int = 256
    crops: int = 1
    extra_datasets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_count("evaluation.batch_size", self.batch_size)
        check_count("evaluation.crops", self.crops)
        for name in self.extra_datasets:
            try:
                dataset_info(name)
            except ValueError as fault:
                raise ValueError(f"evaluation.extra_datasets: {fault}") from None


@dataclass(frozen=True)
class StopPart:
    """When to end early: `patience` epochs without a better `metric` (0: never), or at a `target`."""

    metric: str = "accuracy"
    patience: int = 0
    target: float | None = None

    def __post_init__(self) -> None:
        check_choice("stop.metric", self.metric, ("accuracy", "loss"))
        check_count("stop.patience", self.patience, minimum=0)
        if self.target is not None:
            check_number("stop.target", self.target)
            if self.metric == "accuracy" and self.target > 1:
                raise ValueError(
                    f"stop.target is an accuracy from 0 to 1, got {self.target}; write 98 % as 0.98"
                )


@dataclass(frozen=True)
class Recipe:
    """All settings that decide what a run computes.

    Example:
        >>> recipe = Recipe.from_table({"model": {"name": "capsnet"}, "data": {"name": "mnist"}})
        >>> recipe.override(["training.epochs=3", "model.options.iterations=2"]).model.options
        {'iterations': 2}
        >>> recipe.override(["batchsize=64"])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: unknown recipe key 'batchsize': did you mean 'training.batch_size'? Nearest: ...
    """

    model: ModelPart
    data: DataPart
    loss: LossPart = LossPart()
    optimizer: OptimizerPart = OptimizerPart()
    schedule: SchedulePart = SchedulePart()
    training: TrainingPart = TrainingPart()
    evaluation: EvaluationPart = EvaluationPart()
    stop: StopPart = StopPart()
    seed: int = 0
    description: str = ""

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Recipe:
        """Build a recipe from nested tables, checking every key and value."""
        return build(cls, table)

    @classmethod
    def from_toml(cls, text: str, source: str = "the recipe") -> Recipe:
        """Read a recipe; errors name `source`."""
        table = parse_toml(text, source)
        try:
            return cls.from_table(table)
        except ValueError as fault:
            raise ValueError(f"{source}: {fault}") from None

    @classmethod
    def from_file(cls, path: str | Path) -> Recipe:
        """Read a recipe from a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as fault:
            raise ValueError(
                f"{path} is not TOML: it is not UTF-8 text (byte {fault.start}: {fault.reason})"
            ) from None
        return cls.from_toml(text, str(path))

    def to_table(self) -> dict[str, Any]:
        """The recipe as nested tables, with plain values first, as TOML requires."""
        table = asdict(self)
        return {"description": table.pop("description"), "seed": table.pop("seed"), **table}

    def to_toml(self) -> str:
        """The recipe as text that `from_toml` reads."""
        return format_toml(self.to_table())

    def override(self, settings: Sequence[str]) -> Recipe:
        """The recipe with some values replaced by dotted `key=value` settings, as `--set` does."""
        table = self.to_table()
        for setting in settings:
            put(Recipe, table, *parse_setting(setting))
        return Recipe.from_table(table)


T = TypeVar("T")
# In these tables an unknown key is a wrong spelling; anywhere else it may be an option of the model.
KEY_TABLES = ("data", "loss", "optimizer", "schedule", "training", "evaluation", "stop")
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "a table"}


def build(kind: type[T], table: dict[str, Any], where: str = "", root: type | None = None) -> T:
    """Make a dataclass from a table, and the dataclasses inside it from the tables inside."""
    root = root or kind
    hints = get_type_hints(kind)
    for key in table:
        if key not in hints:
            raise unknown_key(where + key, root)
    for each in fields(kind):  # type: ignore[arg-type]
        if each.default is MISSING and each.default_factory is MISSING and each.name not in table:
            example = f"{each.name}.name" if is_dataclass(hints[each.name]) else each.name
            raise ValueError(f"the recipe has no {where + example}")
    values = {key: convert(hints[key], value, where + key, root) for key, value in table.items()}
    return kind(**values)


def convert(kind: Any, value: Any, where: str, root: type) -> Any:
    """Check one value against its type; a whole number is accepted as a number."""
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        members = [each for each in get_args(kind) if each is not type(None)]
        kind = next((each for each in members if isinstance(value, get_origin(each) or each)), members[0])
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise ValueError(f"{where} must be a table, got {value!r}")
        return build(kind, value, f"{where}.", root)  # type: ignore[arg-type]
    if get_origin(kind) is list:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{where} must be a list of texts, got {value!r}")
        return value
    plain: Any = get_origin(kind) or kind
    accepted = (int, float) if plain is float else (plain,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and plain is not bool):
        raise ValueError(f"{where} must be {WORDS[plain]}, got {value!r}")
    return float(value) if plain is float else value


def put(root: type, table: dict[str, Any], key: str, value: Any) -> None:
    """Put a value under a dotted key; free tables such as `model.options` accept any name."""
    *path, last = key.split(".")
    kind: Any = root
    for name in path:
        hints = get_type_hints(kind) if is_dataclass(kind) else {}
        if is_dataclass(kind) and (name not in hints or not isinstance(table.get(name), dict)):
            raise unknown_key(key, root)
        kind = hints.get(name)
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ValueError(f"{key!r}: {name!r} is a value, not a table")
    if is_dataclass(kind) and last not in get_type_hints(kind):
        raise unknown_key(key, root)
    table[last] = value


def unknown_key(key: str, root: type) -> ValueError:
    """The error for a key that no recipe has."""
    table, name = key.partition(".")[0], key.rpartition(".")[2]
    target, known = ALIASES.get(name, key), list(dotted_keys(root))
    hint = HINTS.get(name) or suggest(target, known, most=5)
    misplaced = any(each.rpartition(".")[2] == target.rpartition(".")[2] for each in known)
    similar = table == key and hint.startswith("did you mean")
    if name not in HINTS and not misplaced and not similar and table not in KEY_TABLES:
        hint = (
            f"an option of the model or of its routing is written model.options.{name}, one of the data set "
            f"data.options.{name}. Nearest keys" + hint.partition("Nearest")[2]
        )
    return ValueError(f"unknown recipe key {key!r}: {hint}")


def dotted_keys(kind: type, where: str = "") -> Iterator[str]:
    """All keys of a dataclass and of those inside it."""
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            yield from dotted_keys(hint, f"{where}{name}.")  # type: ignore[arg-type]
        else:
            yield where + name
