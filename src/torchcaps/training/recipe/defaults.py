"""A sensible recipe for any model on any data set, for those who bring none."""

from __future__ import annotations

from typing import Any

from torchcaps.models.registry import MODELS
from torchcaps.training.recipe.schema import Recipe

CAPSNETS = ("capsnet", "capsnet_small")
MATRIX_CAPSNETS = ("matrix_capsnet", "matrix_capsnet_small")
# Trained on single objects, tested on two: the losses of the 2018 essay.
ANY_SIZE = ("shared_capsnet", "pooled_cnn")
NORB_LIKE: dict[str, Any] = {
    "options": {"size": 48},
    "preprocess": {"standardize": True, "crop": 32, "brightness": 0.2, "contrast": 0.2},
}
DATA: dict[str, dict[str, Any]] = {
    "mnist": {"preprocess": {"translate": 2}},
    "fashion_mnist": {"preprocess": {"translate": 2}},
    "cifar10": {"preprocess": {"translate": 2}},
    "digits": {"preprocess": {"translate": 1}},
    "smallnorb": NORB_LIKE,
    "toys": NORB_LIKE,
    "norb": NORB_LIKE,
}


# The embedded digits are 8×8; each kind of network gets them as large as it needs.
DIGITS_SIZE = dict.fromkeys(ANY_SIZE, 16) | dict.fromkeys(MATRIX_CAPSNETS, 20)


def default_recipe(model: str, data: str, *, data_dir: str | None = None) -> Recipe:
    """The recipe for a model and a data set that no file names.

    Example:
        >>> default_recipe("shared_capsnet", "mnist").loss.absent_weight
        0.25
        >>> default_recipe("capsnet", "folder:photos").data.name
        'folder:photos'
    """
    MODELS[model]  # an unknown name is an error that suggests the nearest
    table: dict[str, Any] = {
        "model": {"name": model},
        "data": {"name": data, "dir": data_dir, **DATA.get(data, {})},
        "loss": {"name": "cross_entropy"},
    }
    if data == "digits":
        table["data"]["options"] = {"size": DIGITS_SIZE.get(model, 28)}
    if model in ANY_SIZE:
        table["loss"] = {"name": "margin", "absent_weight": 0.25}
        table["training"] = {"ema_decay": 0.99}
        if data == "mnist":
            # As far as the digits' empty margin goes. A network that only ever saw centered digits takes more
            # background than it knows, as there is beside a second digit, for a 1.
            table["data"]["preprocess"] = {"translate": 4}
        if data in ("mnist", "digits", "fashion_mnist"):
            table["evaluation"] = {"extra_datasets": ["two_digits"]}
    elif model in CAPSNETS:
        standardized = table["data"].get("preprocess", {}).get("standardize", False)
        drawable = data not in ("two_digits",) and not standardized
        table["loss"] = {"name": "margin", "reconstruction": 0.0005 if drawable else 0.0}
    elif model in MATRIX_CAPSNETS:
        table["optimizer"] = {"lr": 3e-3}
    return Recipe.from_table(table)
