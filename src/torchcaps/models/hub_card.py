"""The model card of a repository: a page for people, with a header that the Hugging Face hub reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchcaps.errors import RunError
from torchcaps.models.registry import MODELS
from torchcaps.models.weights import ModelCard
from torchcaps.poses import POSE_SPACES
from torchcaps.routing import ROUTINGS

RESULT = "result.json"


def run_facts(run: str | Path) -> dict[str, Any]:
    """What a finished run tells about its model: data, training, metrics and versions.

    Args:
        run: the run's folder.

    Raises:
        RunError: it is not the folder of a finished run.
    """
    path = Path(run) / RESULT
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        recipe, environment = result["recipe"], result["environment"]
        return {
            "data": recipe["data"]["name"],
            "parameters": result["num_params"],
            "epochs": result["epochs"],
            "batch size": recipe["training"]["batch_size"],
            "loss": recipe["loss"]["name"],
            "optimizer": f"{recipe['optimizer']['name']}, learning rate {recipe['optimizer']['lr']}",
            "precision": result["precision"],
            "seed": result["seed"],
            "versions": {name: environment[name] for name in ("torchcaps", "torch") if name in environment},
            "metrics": result["metrics"],
        }
    except FileNotFoundError:
        raise RunError(f"{run}: there is no {RESULT} in it, so it is not a finished run") from None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise RunError(f"{path}: it cannot be read ({fault!r})") from fault


def readme(card: ModelCard, source: str = "PATH_OR_REPOSITORY") -> str:
    """The model card for people, in Markdown with the hub's header.

    Args:
        card: what is known of the model.
        source: what its example loads.

    >>> page = readme(ModelCard("pooled_cnn", {}, 2, 1, (28, 28), ("cat", "dog")))
    >>> [line for line in page.splitlines() if line.startswith("#")]
    ['# pooled_cnn']
    """
    facts = dict(card.facts)
    metrics = facts.pop("metrics", {})
    rows = [
        ("classes", ", ".join(card.classes)),
        ("images", f"{card.in_channels} × {card.image_size[0]} × {card.image_size[1]}"),
        ("preprocessing", json.dumps(card.preprocess)),
        ("options", json.dumps(card.options)),
        *((name, as_text(value)) for name, value in facts.items()),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"""---
{header(card, metrics)}
---
# {card.model}

A `{card.model}` for {card.num_classes} classes, made with [torchcaps](https://github.com/torchcaps/torchcaps).

| | |
|---|---|
{table}
{results(metrics)}{needed_imports(card)}
```python
from torchcaps import Model

model = Model.from_pretrained("{source}")
output = model(images)  # float [B, {card.in_channels}, {card.image_size[0]}, {card.image_size[1]}]
names = [model.card.classes[best] for best in output.scores.argmax(1)]
```
"""


def needed_imports(card: ModelCard) -> str:
    """A sentence on each part that torchcaps does not have, and whose module must be imported; or nothing.

    >>> needed_imports(ModelCard("capsnet", {"routing": "em"}, 2, 1, (28, 28), ("cat", "dog")))
    ''
    """
    sentences = []
    for kind, registry, name in (
        ("model", MODELS, card.model),
        ("routing", ROUTINGS, card.options.get("routing")),
        ("pose space", POSE_SPACES, card.options.get("pose")),
    ):
        if not isinstance(name, str) or name not in registry.names():
            continue
        entry = registry[name]
        module = getattr(entry, "constructor", entry).__module__
        if module.partition(".")[0] != "torchcaps":
            where = "" if module == "__main__" else f" (`{module}`)"
            sentences.append(
                f"The {kind} `{name}` does not come with torchcaps: import the module that registers "
                f"it{where} before you load this model.\n"
            )
    return "".join(f"\n{sentence}" for sentence in sentences)


def as_text(value: Any) -> str:
    """A fact in one line.

    >>> as_text("mnist"), as_text(960848), as_text({"torch": "2.13.0"})
    ('mnist', '960,848', 'torch 2.13.0')
    """
    if isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value)


def results(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """A section with the accuracy on each data set, or nothing.

    >>> print(results({"test": {"accuracy": 0.9955, "count": 10000}}).strip().splitlines()[-1])
    | test | 99.55 % | 10,000 |
    """
    rows = [
        f"| {name} | {100 * each['accuracy']:.2f} % | {each['count']:,} |"
        for name, each in metrics.items()
        if "accuracy" in each and "count" in each
    ]
    return (
        "\n".join(["", "## Results", "", "| data | accuracy | images |", "|---|---|---|", *rows, ""])
        if rows
        else ""
    )


def header(card: ModelCard, metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """The YAML by which the hub finds the model and shows its accuracy."""
    lines = ["library_name: torchcaps", "pipeline_tag: image-classification", "tags:", "- capsule-networks"]
    tested = {name: each["accuracy"] for name, each in metrics.items() if "accuracy" in each}
    if tested and "data" in card.facts:
        # JSON strings are YAML strings, whatever a folder of images is called.
        lines += ["model-index:", f"- name: {json.dumps(card.model)}", "  results:"]
        for name, accuracy in tested.items():
            data = json.dumps(f"{card.facts['data']}, {name}")
            lines += [
                "  - task:",
                "      type: image-classification",
                "    dataset:",
                f"      name: {data}",
                f"      type: {json.dumps(card.facts['data'])}",
                "    metrics:",
                "    - type: accuracy",
                f"      value: {accuracy:.4f}",
            ]
    return "\n".join(lines)
