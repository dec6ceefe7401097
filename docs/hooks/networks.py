"""The table of all networks on the API page of models, made from the registry."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from torchcaps.models import create_model, list_models, model_info
from torchcaps.models.registry import DEFAULT_SIZES, model_class, model_parameters

MARK = "<!-- networks -->"
LARGEST = 64


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the table in the place of the mark."""
    return markdown.replace(MARK, table()) if page.file.src_uri == "api/models.md" else markdown


def table() -> str:
    """All networks, one row each."""
    lines = [
        ["name", "network", "this size of it", "parameters", "smallest image", "`routing=`"],
        ["---", "---", "---", "---:", "---:", "---"],
        *(row(name) for name in list_models()),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(name: str) -> list[str]:
    """The cells of one network; parameters are those at 28×28, or at the smallest image if that is larger."""
    constructor = model_info(name).constructor
    kind = model_class(constructor) or constructor
    options = model_parameters(name)
    routing = f"yes; `{options['routing'].default}`" if "routing" in options else "no"
    smallest = smallest_image(name)
    size = max(smallest, DEFAULT_SIZES["image_size"])
    count = sum(parameter.numel() for parameter in build(name, size).parameters())
    note = f" at {size}×{size}" if size != DEFAULT_SIZES["image_size"] else ""
    words = [(inspect.getdoc(each) or "").partition("\n")[0] for each in (kind, constructor)]
    return [f"`{name}`", *words, f"{count:,}{note}", f"{smallest}×{smallest}", routing]


def smallest_image(name: str) -> int:
    """The smallest side of a square image that a network can be built for."""
    for size in range(1, LARGEST + 1):
        try:
            build(name, size)
        except ValueError:
            continue
        return size
    raise ValueError(f"{name} takes no image of up to {LARGEST} pixels")


def build(name: str, size: int) -> torch.nn.Module:
    """The network for images of this size, without memory for its weights."""
    with torch.device("meta"):
        return create_model(name, image_size=size)
