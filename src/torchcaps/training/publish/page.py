"""RESULTS.md, made from the results of runs and from nothing else."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from torchcaps._words import counted
from torchcaps.models import list_pretrained
from torchcaps.models.registry import takes_pretrained

# Numbers of papers and public code as they print them, by model and data.
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
    (
        "efficient_capsnet",
        "mnist",
    ): "Mazzia 2021: 0.26, best of 150 epochs (162 K without decoder)",
    ("heinsen_capsnet", "toys"): "on smallNORB, Heinsen 2019: 0.9",
    ("capsule_head", "cifar10"): "matrix capsules, Hinton 2018: 11.9",
    ("pooled_trunk", "cifar10"): "He 2016: 8.75 (164 epochs)",
}
NEEDED = ("recipe", "seed", "num_params", "epochs", "seconds", "sha256", "metrics", "environment")
# A comparison of routings has its own report: its trainings are not results of a recipe.
COMPARISON = "compare.json"
HEAD = """# Results

Test error in %, of the last model of each run (with validation images, of the best on those), as the run
itself wrote it (`results/*.json`); this page is made from those files by `torchcaps results`. Where a run
tests on images with two digits, both must be right. With several seeds: mean ± standard deviation.

"""


def results_page(results: str | Path = "results") -> str:
    """The page, as text."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(Path(results).glob("*.json")):
        if path.name == COMPARISON:
            continue
        result = read_record(path)
        groups[experiment(result)].append(result)
    columns = ["network", "weights", "data", "error", "other tests", "published", "epochs", "time", "command"]
    return HEAD + markdown(columns, [row(*key, runs) for key, runs in sorted(groups.items())]) + shipped()


def read_record(path: Path) -> dict[str, Any]:
    """Read a file that `record` wrote; any other file raises an error that names it."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        if result["status"] != "ended":
            raise ValueError(f"its run stopped with status {result['status']!r}")
        for name in NEEDED:
            if name not in result:
                raise ValueError(f"it has no {name!r}")
        row(*experiment(result), [result])  # so that a wrong value is found while its file is known
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as fault:
        raise ValueError(f"{path} is not the result of a run that has ended ({fault})") from None
    return result


def experiment(result: dict[str, Any]) -> tuple[str, str, str]:
    """Data, model and command of a run: runs that differ in the seed alone have the same."""
    recipe = result["recipe"]
    names = recipe["data"]["name"], recipe["model"]["name"], command_of(result)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not a name")
    return names


def command_of(result: dict[str, Any]) -> str:
    """The command of a run without its seed: runs that share it are one experiment.

    >>> command_of({"seed": 2, "environment": {"command": "torchcaps train mnist-capsnet --seed 2"}})
    'torchcaps train mnist-capsnet'
    """
    return result["environment"]["command"].removesuffix(f" --seed {result['seed']}")


def row(data: str, model: str, command: str, runs: list[dict[str, Any]]) -> list[str]:
    """One experiment, over all its seeds."""
    seeds = [each["seed"] for each in runs]
    if len({*seeds}) < len(seeds):
        raise ValueError(
            f"`{command}` has two results of the same seed among {sorted(seeds)}: keep one of them"
        )
    first = min(runs, key=lambda each: each["seed"])
    others = dict.fromkeys(name for each in runs for name in each["metrics"] if name != "test")
    minutes = mean(each["seconds"] for each in runs) / 60
    error = spread([each["metrics"]["test"]["error"] for each in runs])
    return [
        f"`{model}`",
        f"{first['num_params']:,}",
        data,
        error if len(runs) == 1 else f"{error} ({len(runs)} seeds)",
        "; ".join(other(name, [e["metrics"][name] for e in runs if name in e["metrics"]]) for name in others)
        or "–",
        PUBLISHED.get((model, data), "–"),
        str(first["epochs"]),
        f"{minutes:.0f} min, {counted(first['environment']['threads'], 'thread')}",
        f"`{command}`",
    ]


def other(name: str, tests: list[dict[str, Any]]) -> str:
    """Another test of the same model, as text."""
    if name == "test_crops":
        return f"several crops {spread([test['error'] for test in tests])}"
    above_half = [test["accuracy_above_half"] for test in tests]
    right = spread([test["accuracy"] for test in tests])
    return f"{name}: {right} % right, {spread(above_half)} % with every score above 0.5"


def spread(shares: list[float]) -> str:
    """Shares in percent: one value, or mean and standard deviation of several.

    >>> spread([0.0123]), spread([0.01, 0.02])
    ('1.23', '1.50 ± 0.71')
    """
    percents = [100 * share for share in shares]
    return f"{mean(percents):.2f}" + (f" ± {stdev(percents):.2f}" if len(percents) > 1 else "")


def shipped() -> str:
    """The table of weights that come with the package."""
    rows = [
        [
            to_load(entry["model"], entry["data"]),
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


def to_load(model: str, data: str) -> str:
    """The call that loads shipped weights.

    >>> to_load("capsnet_small", "mnist")
    '`create_model("capsnet_small", pretrained="mnist")`'
    """
    if takes_pretrained(model):  # then the option is about the weights of its backbone
        return f'`load_weights(pretrained_path("{model}", "{data}"))`'
    return f'`create_model("{model}", pretrained="{data}")`'


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
