from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torchcaps.training.recipe import OptimiserPart


def make_optimiser(part: OptimiserPart, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser that a recipe names.

    >>> make_optimiser(OptimiserPart(learning_rate=0.01), [nn.Parameter(torch.zeros(1))]).defaults["lr"]
    0.01
    """
    common: dict[str, Any] = {"lr": part.learning_rate, "weight_decay": part.weight_decay}
    if part.name == "sgd":
        return torch.optim.SGD(parameters, momentum=part.momentum, **common)
    kind = torch.optim.AdamW if part.name == "adamw" else torch.optim.Adam
    return kind(parameters, **common)
