"""A recipe: everything that decides what a training run computes, as typed tables read from TOML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torchcaps.checks import check_choice, check_count, check_number
from torchcaps.training.tables import build, put
from torchcaps.training.toml_text import format_toml, parse_toml, parse_value

LOSSES = ("margin", "spread", "cross_entropy")
MADE_BY_CHANCE = ("affine_mnist", "boats", "multimnist", "two_digits")


@dataclass(frozen=True)
class ModelPart:
    """Which network: `options` go to `create_model`."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DataPart:
    """Which images: `options` go to `data.load`, `preprocess` to `Preprocess`.

    `validation` is the share of the training images held out to choose a model by; with 0 the run is watched
    on the test images, and the model reported is the last one, not the best. A set that is made by chance
    (two digits laid over each other) is made anew for every epoch if it is `redrawn`.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    preprocess: dict[str, Any] = field(default_factory=dict)
    validation: float = 0.0
    redrawn: bool = False
    dir: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.validation < 1:
            raise ValueError(f"data.validation must be at least 0 and below 1, got {self.validation}")
        if self.redrawn and self.name not in MADE_BY_CHANCE:
            raise ValueError(
                f"data.redrawn: {self.name} is not made by chance, as {', '.join(MADE_BY_CHANCE)} are"
            )
        if self.redrawn and self.validation:
            raise ValueError(
                "data.redrawn and data.validation exclude each other: what is held out would be drawn again"
            )


@dataclass(frozen=True)
class LossPart:
    """What is minimised: a classification loss, and the weight of the reconstruction loss beside it.

    The margin of the spread loss rises as `SpreadMargin(margin_kind, steps=margin_steps)` says.
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
class OptimiserPart:
    """How weights follow gradients; `momentum` is for `sgd` alone."""

    name: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        check_choice("optimiser.name", self.name, ("adam", "adamw", "sgd"))
        check_number("optimiser.learning_rate", self.learning_rate)
        check_number("optimiser.weight_decay", self.weight_decay)
        check_number("optimiser.momentum", self.momentum)


@dataclass(frozen=True)
class SchedulePart:
    """How the learning rate goes: `constant`, `exponential` (× `factor` every `every` steps), or `cosine`.

    Any of them may begin with a linear rise over `warmup_steps`. The cosine falls to 0 in as many equal
    `rounds` as are asked for, each from the full rate: a run that has ended goes on as if it had been made so
    from the start, with as many epochs again and one round more (warm restarts, Loshchilov and Hutter 2017).
    """

    name: str = "constant"
    factor: float = 0.96
    every: int = 2000
    warmup_steps: int = 0
    rounds: int = 1

    def __post_init__(self) -> None:
        check_choice("schedule.name", self.name, ("constant", "exponential", "cosine"))
        check_number("schedule.factor", self.factor, above=True)
        check_count("schedule.every", self.every)
        check_count("schedule.warmup_steps", self.warmup_steps, minimum=0)
        check_count("schedule.rounds", self.rounds)


@dataclass(frozen=True)
class TrainingPart:
    """How long and in what portions.

    `batch_size` counts the images of one update, over all processes; `accumulate` computes it in so many
    pieces, which saves memory and changes nothing else. `average` is the decay of an exponential moving
    average of the weights, which is then the model that is evaluated and saved; 0 for none.
    """

    batch_size: int = 128
    epochs: int = 10
    accumulate: int = 1
    average: float = 0.0
    precision: str = "fp32"
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "accumulate"):
            check_count(f"training.{name}", getattr(self, name))
        if not 0 <= self.average < 1:
            raise ValueError(f"training.average must be at least 0 and below 1, got {self.average}")
        check_choice("training.precision", self.precision, ("fp32", "bf16"))


@dataclass(frozen=True)
class EvaluationPart:
    """How the model is tested: `crops`² crops per image, and further data sets in the final report."""

    batch_size: int = 256
    crops: int = 1
    also: list[str] = field(default_factory=list)

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
        ValueError: unknown recipe key 'batchsize': did you mean 'training.batch_size'? Known: ...
    """

    model: ModelPart
    data: DataPart
    loss: LossPart = LossPart()
    optimiser: OptimiserPart = OptimiserPart()
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
            key, equals, text = setting.partition("=")
            if not equals:
                raise ValueError(
                    f"a setting is written key=value, such as training.epochs=3; got {setting!r}"
                )
            put(Recipe, table, key.strip(), parse_value(text.strip()))
        return Recipe.from_table(table)

    def with_training(self, **changes: Any) -> Recipe:
        """The recipe with some of its `training` values changed."""
        return replace(self, training=replace(self.training, **changes))
