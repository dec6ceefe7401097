"""The page on recipes lists every key of the code, with its type, its default and its choices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from torchcaps.data import Preprocess
from torchcaps.training import Recipe

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "recipes.md").read_text("utf-8")
ROW = re.compile(r"^\| `([\w.]+)` \| ([^|]+) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
TYPES = {
    "str": "text",
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "list[str]": "list of texts",
    "dict[str, typing.Any]": "table",
    "bool | list[str]": "true or false, or list of texts",
}
CHOICES = {
    "loss.name",
    "loss.margin_kind",
    "optimizer.name",
    "schedule.name",
    "training.precision",
    "stop.metric",
}


def keys(kind: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, type and default of every setting, as the page writes them."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if is_dataclass(hint):
            yield from keys(hint, f"{where}{field.name}.")
            continue
        name = hint.__name__ if isinstance(hint, type) and "[" not in str(hint) else str(hint)
        yield where + field.name, TYPES[name.removesuffix(" | None")], default(field)


def default(field: Any) -> str:
    if field.default_factory is not MISSING:
        return f"`{field.default_factory()}`"
    if field.default is MISSING:
        return "required"
    if field.default is None:
        return "none"
    value = field.default
    shown = (
        str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else value
    )
    return f"`{shown}`"


def test_every_key_is_listed_with_its_type_and_default() -> None:
    listed = sorted(row[:3] for row in ROW.findall(PAGE))
    wanted = sorted([*keys(Recipe), *keys(Preprocess, "data.preprocess.")])
    assert listed == wanted


@pytest.mark.parametrize("key", sorted(CHOICES))
def test_the_choices_of_a_key_are_those_that_are_accepted(key: str) -> None:
    [meaning] = [row[3] for row in ROW.findall(PAGE) if row[0] == key]
    recipe = Recipe.from_table({"model": {"name": "capsnet"}, "data": {"name": "mnist"}})
    with pytest.raises(ValueError, match="Known: ") as refused:
        recipe.override([f"{key}=none_of_these"])
    known = set(str(refused.value).partition("Known: ")[2].rstrip(".").split(", "))
    assert set(re.findall(r"`(\w+)`", meaning)) == known


def test_the_recipe_of_the_page_is_one() -> None:
    [text] = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert Recipe.from_toml(text).model.options == {"stages": [[32], [64, 64]]}
