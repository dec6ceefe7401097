"""Reading and writing TOML: the standard library only reads it, and recipes need a small part of it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from torchcaps._extras import require

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = require("tomli", extra="train", purpose="reading recipes")

BARE = re.compile(r"[A-Za-z0-9_-]+")


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Read TOML; a syntax error is a `ValueError` that names `source`.

    >>> parse_toml("epochs = ", "x.toml")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: x.toml is not TOML: Invalid value (at ...)
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ValueError(f"{source} is not TOML: {fault}") from None
    except RecursionError:
        raise ValueError(f"{source} is not TOML: it is nested too deeply") from None


def parse_value(text: str) -> Any:
    """Read one value of a command line: TOML if it can be read as TOML, otherwise the text itself.

    >>> parse_value("3"), parse_value("true"), parse_value("[1, 2]"), parse_value("cosine")
    (3, True, [1, 2], 'cosine')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def parse_setting(text: str) -> tuple[str, Any]:
    """Key and value of a setting as typed after `--set`.

    >>> parse_setting("training.epochs=3")
    ('training.epochs', 3)
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"a setting is written key=value, such as training.epochs=3; got {text!r}")
    return key.strip(), parse_value(value.strip())


def format_toml(table: Mapping[str, Any]) -> str:
    """Write a table of tables; `None` and empty tables are left out.

    >>> print(format_toml({"seed": 1, "data": {"name": "digits", "options": {"size": 16}, "dir": None}}))
    seed = 1
    <BLANKLINE>
    [data]
    name = "digits"
    options = { size = 16 }
    <BLANKLINE>
    """
    sections = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    lines = _lines({name: value for name, value in table.items() if name not in sections})
    for name, section in sections.items():
        lines += ["", f"[{_key(name)}]", *_lines(section)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value not in (None, {})]


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items() if each is not None)
        return f"{{ {inner} }}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, float):
        # TOML requires digits around the point, or an exponent; Python's repr has them.
        return repr(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    # A JSON string is a TOML basic string, except for the delete character, which JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
