"""From cells to numbers: mean and standard deviation over seeds, and which differences are beyond chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import mean, stdev, variance
from typing import Any, NamedTuple

from torchcaps._extras import require
from torchcaps.experiments.compare.cells import read_results
from torchcaps.experiments.compare.forms import SPEED
from torchcaps.experiments.compare.networks import BASELINES, HEADS, UNIFORM, Network
from torchcaps.experiments.framework.statistics import chance_margin
from torchcaps.experiments.framework.storage import read_json


class Measure(NamedTuple):
    """A column of the table.

    Attributes:
        key: name in the values of a cell.
        part: part of the data it is measured on.
        heading: of the column; percentages are all "higher is better".
        phrase: in a sentence, after "on".
    """

    key: str
    part: str
    heading: str
    phrase: str


MEASURES = (
    Measure("accuracy", "digits", "digits", "single digits"),
    Measure("affine", "digits", "affine", "affine transformations"),
    Measure("two_digits", "digits", "two digits", "two digits side by side"),
    Measure("fgsm", "digits", "FGSM", "digits attacked by FGSM"),
    Measure("pgd", "digits", "PGD", "digits attacked by PGD"),
    Measure("overlap", "overlap", "overlap", "overlapping digits"),
    Measure("familiar", "views", "familiar views", "familiar views"),
    Measure("novel", "views", "novel views", "novel views"),
)


@dataclass
class Row:
    """All results of one network.

    Attributes:
        network: the network.
        model: name and options of the model.
        values: of each measure, one number per seed.
        speed: values of the cell `speed`; empty if it is missing.
        validation: accuracy on validation images by part, one number per seed.
        train_seconds: time of training by part, one number per seed.
        parameters: of the network for single digits; `None` if they were not trained.
    """

    network: Network
    model: dict[str, Any]
    values: dict[str, list[float]] = field(default_factory=dict)
    speed: dict[str, float] = field(default_factory=dict)
    validation: dict[str, list[float]] = field(default_factory=dict)
    train_seconds: dict[str, list[float]] = field(default_factory=dict)
    parameters: int | None = None


@dataclass
class Summary:
    """A comparison, as far as its cells are finished.

    Attributes:
        plan: form, settings, environment and seconds.
        rows: networks, baselines first.
        failures: title and message of each cell that failed.
        counts: test images of each measure; several versions of one image count once.
    """

    plan: dict[str, Any]
    rows: list[Row]
    failures: list[tuple[str, str]]
    counts: dict[str, int]

    @property
    def trunks(self) -> list[str]:
        """The trunks that occur."""
        return list(dict.fromkeys(row.network.trunk for row in self.rows))

    @property
    def partial(self) -> bool:
        """Whether a planned network or some of its cells are missing."""
        finished = [row.network._asdict() for row in self.rows]
        if any(network not in finished for network in self.plan.get("planned", ())):
            return True
        parts = [part for part in self.plan["frame"] if part != SPEED]
        return any(seeds_of(row, part) < self.plan["seeds"] for row in self.rows for part in parts)

    def to_table(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return {
            **self.plan,
            "test_images": self.counts,
            "partial": self.partial,
            "networks": [
                {
                    **row.network._asdict(),
                    "baseline": row.network.is_baseline,
                    "model": row.model,
                    **{
                        measure.key: spread(row.values[measure.key]) | {"seeds": row.values[measure.key]}
                        for measure in MEASURES
                        if measure.key in row.values
                    },
                    "zero_gradients": row.values.get("zero_gradients", []),
                    "validation": row.validation,
                    "train_seconds": row.train_seconds,
                    **row.speed,
                }
                for row in self.rows
            ],
            "failed": [{"cell": title, "message": message} for title, message in self.failures],
        }


def summarize(out: str | Path, plan_file: str = "compare.json") -> Summary:
    """Read all results in the folder of a comparison.

    Raises:
        ValueError: the folder holds no comparison, or no cell that is finished.
    """
    out = Path(out)
    if not (out / plan_file).is_file():
        raise ValueError(f"{out} holds no comparison: there is no {plan_file} in it")
    plan = read_json(out / plan_file, "form", "frame", "environment")
    return summarize_results(plan, read_results(out, plan["frame"]), str(out))


def summarize_results(plan: dict[str, Any], results: list[dict[str, Any]], origin: str) -> Summary:
    """Put the results of cells together.

    Args:
        plan: form, settings, environment and seconds.
        results: of cells, as their files hold them.
        origin: where they come from, for the message.

    Raises:
        ValueError: no cell is finished.
    """
    rows: dict[Network, Row] = {}
    failures: list[tuple[str, str]] = []
    counts: dict[str, int] = {}
    for result in results:
        cell = result["cell"]
        network = Network(**cell["network"])
        title = f"{network.title()}: {cell['part']}, seed {cell['seed']}"
        if result["status"] != "ended":
            failures.append((title, result["message"]))
            continue
        row = rows.setdefault(network, Row(network, cell["model"]))
        if cell["part"] == SPEED:
            row.speed = result["values"]
            continue
        counts |= result["counts"]
        if cell["part"] == "digits":
            row.parameters = result["parameters"]
        for key, value in result["values"].items():
            if value is not None:
                row.values.setdefault(key, []).append(value)
        row.validation.setdefault(cell["part"], []).append(result["validation"])
        row.train_seconds.setdefault(cell["part"], []).append(result["train_seconds"])
    if not rows:
        raise ValueError(f"{origin} has no finished cell yet; run the comparison first")
    return Summary(plan, sorted(rows.values(), key=lambda row: order(row.network)), failures, counts)


def seeds_of(row: Row, part: str) -> int:
    """How many seeds of a part a network has."""
    return len(row.validation.get(part, ()))


def order(network: Network) -> tuple[Any, ...]:
    """Sort by trunk, then baselines, then routings as in `HEADS`."""
    heads = [*BASELINES, *HEADS]
    return network.trunk, heads.index(network.head), network.pose or ""


def spread(values: list[float]) -> dict[str, float | None]:
    """Mean and standard deviation; one seed has no deviation.

    >>> spread([1.0, 3.0])
    {'mean': 2.0, 'sd': 1.4142135623730951}
    >>> spread([1.0])
    {'mean': 1.0, 'sd': None}
    """
    return {"mean": mean(values), "sd": stdev(values) if len(values) > 1 else None}


def better(first: list[float], second: list[float], count: int) -> bool:
    """Whether the mean of the first percentages is higher by more than chance.

    The difference must exceed two margins: that of the seeds (Welch's t-test at 5 %, two-sided), and that of
    `count` test images, `chance_margin`. With fewer than two seeds the answer is always no.

    Args:
        first: one percentage per seed.
        second: the same of another network.
        count: test images.

    Example:
        >>> better([90.0, 91.0, 90.5], [80.0, 81.0, 80.5], 1000), better([90.0, 70.0], [80.0, 60.0], 1000)
        (True, False)
    """
    if min(len(first), len(second)) < 2:
        return False
    difference = mean(first) - mean(second)
    if difference <= chance_margin(mean(first), mean(second), count):
        return False
    errors = [variance(values) / len(values) for values in (first, second)]
    if sum(errors) == 0:
        return True
    student = require("scipy.stats", extra="train", purpose="the test of differences").t
    degrees = sum(errors) ** 2 / sum(
        error**2 / (len(values) - 1) for error, values in zip(errors, (first, second))
    )
    return bool(difference > student.ppf(0.975, degrees) * sqrt(sum(errors)))


def winners(
    summary: Summary, measure: Measure, against: tuple[str, ...]
) -> tuple[list[Network], list[Network]]:
    """Routings that are better than all of their baselines, and those that are worse than one of them.

    Args:
        summary: the comparison.
        measure: what is compared.
        against: heads of the baselines. Uniform routing is compared with the same pose only.
    """
    ahead, behind = [], []
    count = summary.counts.get(measure.key, 0)
    for row in summary.rows:
        if row.network.is_baseline or measure.key not in row.values:
            continue
        rivals = [
            other.values[measure.key]
            for other in summary.rows
            if other.network.trunk == row.network.trunk
            and other.network.head in against
            and (other.network.head != UNIFORM or other.network.pose == row.network.pose)
            and measure.key in other.values
        ]
        own = row.values[measure.key]
        if rivals and all(better(own, rival, count) for rival in rivals):
            ahead.append(row.network)
        if any(better(rival, own, count) for rival in rivals):
            behind.append(row.network)
    return ahead, behind
