"""A recipe for any model on any data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchcaps.data.registry import dataset_info
from torchcaps.models.registry import model_info
from torchcaps.routing import ROUTINGS
from torchcaps.training.recipe.schema import Recipe

LARGEST_BATCH, SMALLEST_BATCH = 128, 8
# An epoch of fewer updates than this teaches a network little.
BATCHES_PER_EPOCH = 8


def default_recipe(
    model: str, data: str, *, data_dir: str | None = None, routings: Sequence[str] = ()
) -> Recipe:
    """Make a recipe for a model and a data set for which there is no file.

    It joins what both are registered with: `DatasetInfo.recipe`, `ModelInfo.recipe`, and `ModelInfo.on` for
    this data set.

    Args:
        model: one of `list_models()`.
        data: one of `list_datasets()`, or `folder:PATH`.
        data_dir: where the data set's files are.
        routings: those that the model will have instead of its own. The margin loss is for activations that
            are lengths; if one of these routings has others, the loss is cross-entropy, which is for all.

    Example:
        >>> default_recipe("shared_capsnet", "mnist").loss.absent_weight
        0.25
        >>> default_recipe("capsnet", "mnist", routings=["em"]).loss.name
        'cross_entropy'
        >>> default_recipe("capsnet", "folder:photos").data.name
        'folder:photos'
    """
    network, images = model_info(model), dataset_info(data)
    table: dict[str, Any] = {"loss": {}}
    for key, values in network.recipe.items():
        table[key] = dict(values)
    table["loss"]["name"], _ = default_loss(model, routings)
    merged = merge(images.recipe, network.on.get(data, {}))
    table["model"] = {"name": model}
    table["data"] = {"name": data, "dir": data_dir, **merged}
    if merged.get("preprocess", {}).get("standardize") or not images.drawable:
        table["loss"]["reconstruction"] = 0.0
    extra = table.get("evaluation", {}).get("extra_datasets", [])
    if extra:
        table["evaluation"]["extra_datasets"] = [each for each in extra if data in dataset_info(each).sources]
    return Recipe.from_table(table)


def default_loss(model: str, routings: Sequence[str] = ()) -> tuple[str, str]:
    """The loss of a model for which none was chosen, and in words why it is this one.

    Args:
        model: one of `list_models()`.
        routings: those that the model will have instead of its own.

    Example:
        >>> default_loss("capsnet")
        ('margin', 'the default of capsnet')
        >>> default_loss("capsnet", ["em"])[0]
        'cross_entropy'
    """
    name = model_info(model).recipe.get("loss", {}).get("name")
    if name is None:
        return "cross_entropy", f"as {model} has no default"
    without = [routing for routing in routings if not ROUTINGS[routing].has_lengths]
    if name == "margin" and without:
        return "cross_entropy", (
            f"as the margin loss of {model} is for activations that are lengths, and routing "
            f"{', '.join(map(repr, without))} has others (Routing.has_lengths is False)"
        )
    return name, f"the default of {model}"


def default_batch_size(images: int) -> int:
    """The batch size of a recipe that leaves it out.

    128 for 1,024 training images or more. Otherwise the largest power of two with which an epoch has at least
    8 updates, but not below 8: ten epochs of one batch would leave a network as it was.

    Args:
        images: number of training images.

    Example:
        >>> [default_batch_size(images) for images in (48, 160, 1000, 1024, 60000)]
        [8, 16, 64, 128, 128]
    """
    power = 1 << (images // BATCHES_PER_EPOCH).bit_length() >> 1
    return min(LARGEST_BATCH, max(SMALLEST_BATCH, power))


def with_batch_size(recipe: Recipe, images: int) -> Recipe:
    """The recipe with a batch size: its own, or the default for so many training images."""
    if recipe.training.batch_size is not None:
        return recipe
    return replace(recipe, training=replace(recipe.training, batch_size=default_batch_size(images)))


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two nested tables; where both have a value, that of `above` is used.

    >>> merge({"options": {"size": 28}, "dir": "a"}, {"options": {"size": 16}})
    {'options': {'size': 16}, 'dir': 'a'}
    """
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(inner, value) if both else value  # type: ignore[arg-type]
    return merged
