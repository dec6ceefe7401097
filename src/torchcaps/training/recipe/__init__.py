"""A recipe: everything that decides what a training run computes, as typed tables read from TOML."""

from torchcaps.training.recipe.defaults import default_recipe
from torchcaps.training.recipe.files import list_recipes, load_recipe
from torchcaps.training.recipe.schema import (
    DataPart,
    LossPart,
    ModelPart,
    OptimizerPart,
    Recipe,
    SchedulePart,
)

__all__ = [
    "DataPart",
    "LossPart",
    "ModelPart",
    "OptimizerPart",
    "Recipe",
    "SchedulePart",
    "default_recipe",
    "list_recipes",
    "load_recipe",
]
