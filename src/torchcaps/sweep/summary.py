"""The numbers of a sweep: validation decides, the test is reported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One combination of values.

    Attributes:
        values: by key.
        folder: of its runs.
        validation: accuracy of each finished seed on the validation images, at the epoch that was kept.
        test: accuracy of the same models on the test images.
        failures: message of each seed that failed.
    """

    values: dict[str, Any]
    folder: str
    validation: list[float]
    test: list[float]
    failures: dict[int, str]


def make_row(
    values: Mapping[str, Any],
    folder: Path,
    seeds: Sequence[int],
    metric: str,
    failures: Mapping[int, str] | None = None,
) -> Row:
    """Read the finished runs of one combination; `metric` is the recipe's `stop.metric`."""
    validation, test = [], []
    for seed in seeds:
        result = folder / f"seed-{seed}" / "result.json"
        if not result.is_file():
            continue
        content = json.loads(result.read_text(encoding="utf-8"))
        if content["status"] == "ended":
            validation.append(kept_accuracy(result.with_name("metrics.jsonl"), metric))
            test.append(content["metrics"].get("test", {}).get("accuracy", float("nan")))
    return Row(dict(values), folder.name, validation, test, dict(failures or {}))


def kept_accuracy(metrics: Path, metric: str) -> float:
    """Validation accuracy of the epoch whose model a run keeps: the first with the best value of `metric`."""
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    epochs = [line["validation"] for line in lines if "validation" in line]
    sign = 1 if metric == "accuracy" else -1
    return max(epochs, key=lambda epoch: sign * epoch[metric])["accuracy"]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation over seeds (None for a single one) and the values.

    >>> spread([0.5, 0.7])["mean"]
    0.6
    """
    return {
        "mean": round(mean(values), 6) if values else None,
        "sd": round(stdev(values), 6) if len(values) > 1 else None,
        "values": [round(value, 6) for value in values],
    }


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """All combinations, best on the validation images first, and the best one alone.

    A combination with a failed seed comes after all complete ones, so that luck does not decide.
    """
    unique = {row.folder: row for row in rows}
    table: list[dict[str, Any]] = [
        {
            "values": row.values,
            "folder": row.folder,
            "validation": spread(row.validation),
            "test": spread(row.test),
            "failures": {str(seed): message for seed, message in row.failures.items()},
        }
        for row in unique.values()
    ]
    table.sort(key=lambda entry: (bool(entry["failures"]), -(entry["validation"]["mean"] or 0.0)))
    best = table[0] if table and table[0]["validation"]["mean"] is not None else None
    return {"rows": table, "best": best}
