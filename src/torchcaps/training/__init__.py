"""Training: recipes, the engine, checkpoints, metrics, and models put to use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchcaps.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOME)
