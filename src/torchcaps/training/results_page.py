"""RESULTS.md, made from what runs wrote and from nothing else."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from torchcaps.models import list_pretrained

# What the papers and public code have, in the words of their own tables; by model and data.
PUBLISHED = {
    ("shared_capsnet", "mnist"): "essay 2018: 0.7; two digits > 90 % right",
    ("pooled_cnn", "mnist"): "essay 2018: 0.7; two digits about 40 % right, 10 % with the threshold",
    ("capsnet", "mnist"): "Sabour 2017: 0.25 (300 k steps); public code 0.34 mean",
    ("matrix_capsnet_small", "mnist"): "Hinton 2018: 0.44 (316 K weights)",
    ("matrix_capsnet_small", "toys"): "on smallNORB, Hinton 2018: 2.2",
    ("norb_cnn", "toys"): "on smallNORB, Hinton 2018: 5.2",
    ("capsnet_small", "multimnist"): "Sabour 2017: 5.2 (11.4 M weights)",
    ("capsnet_cnn", "multimnist"): "Sabour 2017: 8.1 (24.6 M weights)",
    ("capsnet_small", "fashion_mnist"): "public CapsNet: 9.4",
}
HEAD = """# Results

Test error in %, of the last model of each run, as the run itself wrote it (`results/*.json`); this page is
made from those files by `torchcaps results`. Where a run tests on images with two digits, both must be right.
With several seeds: mean ± standard deviation.

"""


def results_page(results: str | Path = "results") -> str:
    """The page, as text."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(Path(results).glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        recipe = result["recipe"]
        groups[recipe["model"]["name"], recipe["data"]["name"]].append(result)
    rows = [row(*key, runs) for key, runs in sorted(groups.items(), key=lambda item: (item[0][1], item[0]))]
    columns = ["network", "weights", "data", "error", "other tests", "published", "epochs", "time", "command"]
    return HEAD + markdown(columns, rows) + shipped()


def row(model: str, data: str, runs: list[dict[str, Any]]) -> list[str]:
    """One network on one data set, over all its seeds."""
    first = runs[0]
    others = [name for name in first["metrics"] if name != "test"]
    minutes = mean(each["seconds"] for each in runs) / 60
    return [
        f"`{model}`",
        f"{first['weights']:,}",
        data,
        spread([each["metrics"]["test"]["error"] for each in runs]),
        "; ".join(other(name, [each["metrics"][name] for each in runs]) for name in others) or "–",
        PUBLISHED.get((model, data), "–"),
        str(first["epochs"]),
        f"{minutes:.0f} min, {counted(first['environment']['threads'], 'thread')}",
        f"`{first['environment']['command']}`",
    ]


def other(name: str, tests: list[dict[str, Any]]) -> str:
    """Another test of the same model, in words."""
    if name == "test_crops":
        return f"several crops {spread([test['error'] for test in tests])}"
    likely = [test["accuracy_above_half"] for test in tests]
    right = spread([test["accuracy"] for test in tests])
    return f"{name}: {right} % right, {spread(likely)} % with every score above 0.5"


def spread(shares: list[float]) -> str:
    """Shares in percent: one, or mean and standard deviation of several.

    >>> spread([0.0123]), spread([0.01, 0.02])
    ('1.23', '1.50 ± 0.71')
    """
    percents = [100 * share for share in shares]
    return f"{mean(percents):.2f}" + (f" ± {stdev(percents):.2f}" if len(percents) > 1 else "")


def shipped() -> str:
    """The table of weights that come with the package."""
    rows = [
        [
            f'`create_model("{entry["model"]}", pretrained="{entry["data"]}")`',
            f"{entry['bytes'] / 1e6:.1f} MB",
            f"{100 * entry['metrics']['test']['error']:.2f}",
            f"`{entry['sha256'][:12]}`",
        ]
        for entry in list_pretrained()
    ]
    text = (
        "\n## Weights that come with the package\n\nIn half precision; the error is that of the halved "
        "weights, on all test images.\n\n"
    )
    return text + markdown(["to load", "size", "error", "sha256"], rows) if rows else ""


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "thread"), counted(2, "thread")
    ('1 thread', '2 threads')
    """
    return f"{number} {what}" + ("" if number == 1 else "s")
