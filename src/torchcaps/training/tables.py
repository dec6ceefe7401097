"""Typed dataclasses out of plain tables, with errors that name the key and the nearest right one."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from torchcaps.registry import suggest

T = TypeVar("T")
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "a table"}


def build(kind: type[T], table: dict[str, Any], where: str = "", root: type | None = None) -> T:
    """Make a dataclass from a table, and the dataclasses inside it from the tables inside."""
    root = root or kind
    hints = get_type_hints(kind)
    for key in table:
        if key not in hints:
            raise ValueError(f"unknown recipe key {where + key!r}: {suggest(where + key, dotted_keys(root))}")
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
            raise ValueError(f"unknown recipe key {key!r}: {suggest(key, dotted_keys(root))}")
        kind = hints.get(name)
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ValueError(f"{key!r}: {name!r} is a value, not a table")
    if is_dataclass(kind) and last not in get_type_hints(kind):
        raise ValueError(f"unknown recipe key {key!r}: {suggest(key, dotted_keys(root))}")
    table[last] = value


def dotted_keys(kind: type, where: str = "") -> Iterator[str]:
    """All keys of a dataclass and of those inside it."""
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            yield from dotted_keys(hint, f"{where}{name}.")  # type: ignore[arg-type]
        else:
            yield where + name
