"""Training: recipes, the engine, checkpoints, metrics, and models put to use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchcaps.training.confusion import confusion_figure
    from torchcaps.training.defaults import default_recipe
    from torchcaps.training.engine import train
    from torchcaps.training.errors import RunError
    from torchcaps.training.evaluation import evaluate
    from torchcaps.training.metrics import Evaluation
    from torchcaps.training.prediction import Prediction, Predictor, predict
    from torchcaps.training.recipe import Recipe
    from torchcaps.training.recipe_files import list_recipes, load_recipe
    from torchcaps.training.watching import Watcher
    from torchcaps.training.weights import Card, load_weights, save_weights

_HOME = {
    "Card": "weights",
    "Evaluation": "metrics",
    "Prediction": "prediction",
    "Predictor": "prediction",
    "Recipe": "recipe",
    "RunError": "errors",
    "Watcher": "watching",
    "confusion_figure": "confusion",
    "default_recipe": "defaults",
    "evaluate": "evaluation",
    "list_recipes": "recipe_files",
    "load_recipe": "recipe_files",
    "load_weights": "weights",
    "predict": "prediction",
    "save_weights": "weights",
    "train": "engine",
}
__all__ = [
    "Card",
    "Evaluation",
    "Prediction",
    "Predictor",
    "Recipe",
    "RunError",
    "Watcher",
    "confusion_figure",
    "default_recipe",
    "evaluate",
    "list_recipes",
    "load_recipe",
    "load_weights",
    "predict",
    "save_weights",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: the command line's help needs none of them."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
