"""Damage to bytes and to JSON values."""

from __future__ import annotations

import json
import random
from typing import Any

# Values that parsers handle badly: limits of integer types, other types, odd text, deep nesting.
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31 - 1, 2**31, 2**63, 10**30, -(2**63), 0.5, 1e308, float("nan"),
    float("inf"), "", "\x00", "é" * 50, "../../etc/passwd", "\ud800", [], {}, [[]], [0] * 1000,
    {"a": {"a": {}}},
)  # fmt: skip
INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"[",
    b"{",
    b'"',
)


def damage(content: bytes, choose: random.Random) -> bytes:
    """Content with one to four random changes; a change may also cut, repeat or move a part."""
    data = bytearray(content)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        place = choose.randrange(len(data) + 1)
        if choose.random() < 0.5:
            place = min(place, choose.randrange(64))  # headers are where parsers are
        kind = choose.randrange(7)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << choose.randrange(8)
        elif kind == 1 and data:
            data[place % len(data)] = choose.randrange(256)
        elif kind == 2:
            piece = choose.choice(INTERESTING)
            data[place : place + len(piece)] = piece
        elif kind == 3:
            data[place:place] = choose.randbytes(choose.choice((1, 4, 16)))
        elif kind == 4:
            del data[place : place + choose.choice((1, 4, 100, len(data)))]
        elif kind == 5:
            piece = bytes(data[place : place + choose.choice((1, 4, 32))])
            data[place:place] = piece * choose.choice((2, 10, 50))
        else:
            data[place:place] = choose.choice(INTERESTING) * (20_000 if choose.random() < 0.02 else 30)
    return bytes(data)


def damage_json(value: Any, choose: random.Random) -> Any:
    """A copy of a JSON value with one entry replaced, removed or added somewhere inside."""
    if isinstance(value, dict) and value and choose.random() < 0.9:
        copy = dict(value)
        key = choose.choice(list(copy))
        kind = choose.random()
        if kind < 0.15:
            del copy[key]
        elif kind < 0.25:
            copy[choose.choice(("", "x", key + "x", "format", "name"))] = choose.choice(HOSTILE)
        else:
            copy[key] = damage_json(copy[key], choose)
        return copy
    if isinstance(value, list) and value and choose.random() < 0.7:
        items = list(value)
        place = choose.randrange(len(items))
        items[place] = damage_json(items[place], choose)
        return items
    return choose.choice(HOSTILE)


def damage_json_text(content: bytes, choose: random.Random) -> bytes:
    """JSON text of a damaged value, or now and then damaged text."""
    if choose.random() < 0.3:
        return damage(content, choose)
    return json.dumps(damage_json(json.loads(content), choose)).encode()


def damage_safetensors(content: bytes, choose: random.Random) -> bytes:
    """A safetensors file whose header, or whose torchcaps table in it, is still JSON but damaged."""
    if choose.random() < 0.3:
        return damage(content, choose)
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    if choose.random() < 0.7:
        table = json.loads(header["__metadata__"]["torchcaps"])
        header["__metadata__"]["torchcaps"] = json.dumps(damage_json(table, choose))
    else:
        header = damage_json(header, choose)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]
