"""The settings that a sweep varies, as they are typed after `--grid`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from torchcaps.training.recipe import Recipe
from torchcaps.training.recipe.schema import put
from torchcaps.training.recipe.toml import parse_value

# Settings that decide what runs are compared on, or that the sweep sets itself.
FIXED = {
    "seed": "the option --seeds sets it",
    "data.val_fraction": "all runs must be compared on the same validation images",
    "data.name": "accuracies on different data cannot be compared",
}
NAME_LENGTH = 80
RANGE = re.compile(r"\s*([-+0-9.eE]+)\s*\.\.\s*([-+0-9.eE]+)\s*")
# A range that spans this factor is searched by orders of magnitude.
LOG_FACTOR = 10


class Range(NamedTuple):
    """All numbers from `low` to `high`; whole numbers if both are."""

    low: float
    high: float

    @property
    def is_log(self) -> bool:
        """Whether orders of magnitude count rather than differences."""
        return self.low > 0 and self.high / self.low >= LOG_FACTOR


Space = dict[str, "list[Any] | Range"]


def parse_space(grids: Sequence[str], *, ranges: bool = False) -> Space:
    """Keys and their values.

    Args:
        grids: texts such as `optimizer.lr=0.001,0.01`.
        ranges: whether `0.001..0.1` is allowed.

    Example:
        >>> parse_space(["optimizer.lr=1e-3,1e-2", "loss.name=margin,spread"])
        {'optimizer.lr': [0.001, 0.01], 'loss.name': ['margin', 'spread']}
        >>> parse_space(["model.options.stages=[[8],[16]],[[16],[32]]"])
        {'model.options.stages': [[[8], [16]], [[16], [32]]]}
    """
    space: Space = {}
    for text in grids:
        key, equals, rest = text.partition("=")
        key = key.strip()
        if not equals or not key or not rest.strip():
            raise ValueError(f"--grid is written key=value,value,...; got {text!r}")
        if key in FIXED:
            raise ValueError(f"--grid {key}: {FIXED[key]}")
        if key in space:
            raise ValueError(f"--grid {key} is given twice: write all its values in one")
        match = RANGE.fullmatch(rest)
        if match:
            if not ranges:
                raise ValueError(f"--grid {text}: a range needs --search N; without it, list the values")
            space[key] = parse_range(key, *match.groups())
            continue
        values = parse_values(rest)
        for place, value in enumerate(values):
            if value in values[:place]:
                raise ValueError(f"--grid {key}: the value {value!r} is given twice")
        space[key] = values
    return space


def parse_range(key: str, low_text: str, high_text: str) -> Range:
    """The range that two texts name."""
    low, high = parse_value(low_text), parse_value(high_text)
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or not low < high:
        raise ValueError(f"--grid {key}: a range goes from a smaller to a larger number, got {low}..{high}")
    return Range(low, high)


def parse_values(text: str) -> list[Any]:
    """Values separated by commas; commas inside brackets and quotes separate nothing.

    >>> parse_values("3,cosine,[1, 2]"), parse_values("true,false")
    ([3, 'cosine', [1, 2]], [True, False])
    """
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [parse_value(part.strip()) for part in parts]


def combinations(space: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """All combinations of the values; the last key changes fastest."""
    for values in product(*space.values()):
        yield dict(zip(space, values))


def with_values(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """The recipe with some settings replaced; wrong keys and values raise `ValueError`."""
    table = recipe.to_table()
    for key, value in values.items():
        put(Recipe, table, key, value)
    return Recipe.from_table(table)


def folder_name(values: Mapping[str, Any]) -> str:
    """The name of a combination's folder; it depends on these values alone, not on the rest of the grid.

    >>> folder_name({"optimizer.lr": 0.01, "loss.name": "spread"})
    'lr=0.01,name=spread-f5436db3'
    """
    text = json.dumps(dict(sorted(values.items())))
    short = ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in values.items())
    readable = re.sub(r"[^A-Za-z0-9.=,_-]+", "_", short)[:NAME_LENGTH]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
