from __future__ import annotations

from pathlib import Path

from torchcaps._registry import suggest
from torchcaps.training.recipe.schema import Recipe

PACKAGE = Path(__file__).parents[2]
# In a checkout they are beside the code, in an installed package inside it.
FOLDERS = (PACKAGE / "recipes", PACKAGE.parents[1] / "recipes")


def list_recipes() -> dict[str, Path]:
    """The recipes that come with torchcaps, by name."""
    recipes: dict[str, Path] = {}
    for folder in reversed(FOLDERS):
        recipes |= {path.stem: path for path in folder.glob("*.toml")}
    return dict(sorted(recipes.items()))


def load_recipe(name: str) -> Recipe:
    """Read a recipe by its name or by the path of a TOML file.

    >>> load_recipe("no-such-recipe")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown recipe 'no-such-recipe': ...
    """
    if Path(name).is_file():
        return Recipe.from_file(name)
    known = list_recipes()
    stem = Path(name).stem if name.endswith(".toml") else name
    if stem not in known:
        if name.endswith(".toml") or len(Path(name).parts) > 1:
            raise ValueError(f"there is no file {name}; recipes by name: {suggest(stem, known, most=5)}")
        raise ValueError(f"unknown recipe {name!r}: {suggest(stem, known, most=5)}")
    return Recipe.from_file(known[stem])
