"""The section "On record" of the page Comparison, made from results/compare.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MARK = "<!-- comparison -->"
TRUNKS_MARK = "<!-- trunks -->"
NONE = "No comparison is on record yet: `torchcaps compare --full --record` makes one."
# Keys of the record, and their columns.
COLUMNS = {
    "accuracy": "digits",
    "affine": "affine",
    "two_digits": "two digits",
    "fgsm": "FGSM",
    "pgd": "PGD",
    "overlap": "overlap",
    "familiar": "familiar views",
    "novel": "novel views",
}
NAMES = {"pooled": "average pooling", "dense": "dense layer"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the table in the place of the mark."""
    if page.file.src_uri != "comparison.md":
        return markdown
    record = ROOT / "results/compare.json"
    markdown = markdown.replace(TRUNKS_MARK, trunks(record))
    return markdown.replace(MARK, section(record, ROOT / "docs/compare.png"))


def section(record: Path, figure: Path) -> str:
    """The figure and the table of a record; a sentence if there is none."""
    if not record.is_file():
        return NONE
    table = json.loads(record.read_text(encoding="utf-8"))
    networks = table["networks"]
    keys = [key for key in COLUMNS if any(key in network for network in networks)]
    heads = ["network", *(f"{COLUMNS[key]} (%)" for key in keys)]
    rows = [[title(network), *(cell(network.get(key)) for key in keys)] for network in networks]
    lines = [heads, ["---"] * len(heads), *rows]
    text = f"![All networks of the comparison]({figure.name})\n\n" if figure.is_file() else ""
    text += "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return f"{text}\nThe form `{table['form']}`, mean ± standard deviation of the seeds.{progress(table)}\n"


def trunks(record: Path, keys: tuple[str, ...] = ("accuracy", "overlap", "familiar", "novel")) -> str:
    """The heads that were tried on every trunk, one row each: their numbers on all trunks side by side."""
    if not record.is_file():
        return NONE
    networks = json.loads(record.read_text(encoding="utf-8"))["networks"]
    names = list(dict.fromkeys(network["trunk"] for network in networks))
    heads: dict[str, dict[str, dict[str, Any]]] = {}
    for network in networks:
        heads.setdefault(title({**network, "trunk": None}), {})[network["trunk"]] = network
    rows = [
        [head, COLUMNS[key], *(cell(found[trunk].get(key)) for trunk in names)]
        for key in keys
        for head, found in heads.items()
        if len(found) == len(names)
    ]
    lines = [["head", "right (%)", *(f"`{trunk}`" for trunk in names)], ["---"] * (2 + len(names)), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def progress(table: dict[str, Any]) -> str:
    """What is missing in a record; nothing if it is complete.

    >>> progress({"partial": True, "cells": {"a": {"seed": 0}, "b": {"seed": 1}}})
    ' Not all cells are finished: a number without a deviation is that of one seed, and none has more than 2.'
    >>> progress({"partial": False})
    ''
    """
    if not table["partial"]:
        return ""
    most = len({each["seed"] for each in table["cells"].values()})
    return (
        " Not all cells are finished: a number without a deviation is that of one seed, and none has more "
        f"than {most}."
    )


def title(network: dict[str, Any]) -> str:
    """The name of a network; baselines are in italics."""
    name = NAMES.get(network["head"], network["head"])
    text = ", ".join(filter(None, [name, network["pose"], network["trunk"]]))
    return f"*{text}*" if network["baseline"] else text


def cell(value: dict[str, Any] | None) -> str:
    """Mean and deviation with one decimal.

    >>> cell({"mean": 97.25, "sd": 0.5}), cell({"mean": 96.0, "sd": None}), cell(None)
    ('97.2 ± 0.5', '96.0', '–')
    """
    if value is None:
        return "–"
    return f"{value['mean']:.1f}" + ("" if value["sd"] is None else f" ± {value['sd']:.1f}")
