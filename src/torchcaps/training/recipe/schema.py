"""A recipe: everything that decides what a training run computes, as typed tables read from TOML."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from torchcaps._checks import check_choice, check_count, check_number
from torchcaps._registry import suggest
from torchcaps.data.registry import dataset_info
from torchcaps.models.registry import ALIASES as SIZE_ALIASES
from torchcaps.models.registry import SIZES
from torchcaps.training.recipe.toml import format_toml, parse_setting, parse_toml

LOSSES = ("margin", "spread", "cross_entropy")
# Names that other libraries use.
ALIASES = {"learning_rate": "optimizer.lr", "ema": "training.ema_decay"}
HINTS = {
    **{alias: f"{size} comes from the data set" for alias, size in SIZE_ALIASES.items()},
    **{size: f"{size} comes from the data set" for size in SIZES},
}


@dataclass(frozen=True)
class ModelPart:
    """Which network: `options` go to `create_model`."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for option in self.options:
            size = SIZE_ALIASES.get(option, option)
            if size in SIZES:
                raise ValueError(f"model.options.{option}: {size} comes from the data set")


@dataclass(frozen=True)
class DataPart:
    """Which images: `options` go to `data.load`, `preprocess` to `Preprocess`.

    `val_fraction` is the share of the training images held out to choose a model by. With 0, progress is
    shown on the test images, and the model reported is the last one, not the best. With
    `resample_each_epoch`, a random set (two digits laid over each other) is drawn again for every epoch.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    preprocess: dict[str, Any] = field(default_factory=dict)
    val_fraction: float = 0.0
    resample_each_epoch: bool = False
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


@dataclass(frozen=True)
class LossPart:
    """What is minimized: a classification loss, and the weight of the reconstruction loss beside it.

    The margin of the spread loss rises as `SpreadMarginSchedule(margin_kind, steps=margin_steps)` says.
    """

    name: str = "margin"
    absent_weight: float = 0.5
    reconstruction: float = 0.0
    margin_kind: str = "linear"
    margin_steps: int = 10_000

    def __post_init__(self) -> None:
        check_choice("loss.name", self.name, LOSSES)
        check_number("loss.absent_weight", self.absent_weight)
        check_number("loss.reconstruction", self.reconstruction)
        check_choice("loss.margin_kind", self.margin_kind, ("linear", "sigmoid"))
        check_count("loss.margin_steps", self.margin_steps)


@dataclass(frozen=True)
class OptimizerPart:
    """How weights follow gradients; `momentum` is for `sgd` alone."""

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
    """How the learning rate goes: `constant`, `exponential` (× `gamma` every `step_size` steps), or `cosine`.

    Any of them may begin with a linear rise over `warmup_steps`. The cosine falls to 0 in as many equal
    `cycles` as are asked for, each from the full rate: a run that has ended goes on as if it had been made so
    from the start, with as many epochs again and one round more (warm restarts, Loshchilov and Hutter 2017).
    """

    name: str = "constant"
    gamma: float = 0.96
    step_size: int = 2000
    warmup_steps: int = 0
    cycles: int = 1

    def __post_init__(self) -> None:
        check_choice("schedule.name", self.name, ("constant", "exponential", "cosine"))
        check_number("schedule.gamma", self.gamma, above=True)
        check_count("schedule.step_size", self.step_size)
        check_count("schedule.warmup_steps", self.warmup_steps, minimum=0)
        check_count("schedule.cycles", self.cycles)


@dataclass(frozen=True)
class TrainingPart:
    """How long and in what portions.

    `batch_size` counts the images of one update, over all processes; `grad_accum_steps` computes it in
    that many pieces, which saves memory and changes nothing else. `ema_decay` is the decay of an exponential
    moving average of the weights, which is then the model that is evaluated and saved; 0 for none.
    """

    batch_size: int = 128
    epochs: int = 10
    grad_accum_steps: int = 1
    ema_decay: float = 0.0
    precision: str = "fp32"
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "grad_accum_steps"):
            check_count(f"training.{name}", getattr(self, name))
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"training.ema_decay must be at least 0 and below 1, got {self.ema_decay}")
        check_choice("training.precision", self.precision, ("fp32", "bf16"))


@dataclass(frozen=True)
class EvaluationPart:
    """How the model is tested: `crops`² crops per image, and further data sets in the final report."""

    batch_size: int = 256
    crops: int = 1
    extra_datasets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_count("evaluation.batch_size", self.batch_size)
        check_count("evaluation.crops", self.crops)


@dataclass(frozen=True)
class StopPart:
    """When to end early: `patience` epochs without a better `metric` (0: never), or at a `target`."""

    metric: str = "accuracy"
    patience: int = 0
    target: float | None = None

    def __post_init__(self) -> None:
        check_choice("stop.metric", self.metric, ("accuracy", "loss"))
        check_count("stop.patience", self.patience, minimum=0)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run computes.

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
        """Check a table as TOML gives it, key by key."""
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
        return cls.from_toml(Path(path).read_text(encoding="utf-8"), str(path))

    def to_table(self) -> dict[str, Any]:
        """The whole recipe as plain tables, plain values before them, as TOML wants it."""
        table = asdict(self)
        return {"description": table.pop("description"), "seed": table.pop("seed"), **table}

    def to_toml(self) -> str:
        """The whole recipe as text that `from_toml` reads back."""
        return format_toml(self.to_table())

    def override(self, settings: Sequence[str]) -> Recipe:
        """The recipe with dotted `key=value` settings put in, as `--set` does."""
        table = self.to_table()
        for setting in settings:
            put(Recipe, table, *parse_setting(setting))
        return Recipe.from_table(table)

    def with_training(self, **changes: Any) -> Recipe:
        """The recipe with some of its `training` values changed."""
        return replace(self, training=replace(self.training, **changes))


T = TypeVar("T")
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
            raise ValueError(f"the recipe does not say {where + example}")
    values = {key: convert(hints[key], value, where + key, root) for key, value in table.items()}
    return kind(**values)


def convert(kind: Any, value: Any, where: str, root: type) -> Any:
    """Check one value against its type; whole numbers may stand where numbers are wanted."""
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(each for each in get_args(kind) if each is not type(None))
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
    """Put a value under a dotted key; inside free tables such as `model.options` any name goes."""
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
    name = key.rpartition(".")[2]
    hint = HINTS.get(name) or suggest(ALIASES.get(name, key), dotted_keys(root), most=5)
    return ValueError(f"unknown recipe key {key!r}: {hint}")


def dotted_keys(kind: type, where: str = "") -> Iterator[str]:
    """All keys of a dataclass and of those inside it."""
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            yield from dotted_keys(hint, f"{where}{name}.")  # type: ignore[arg-type]
        else:
            yield where + name
