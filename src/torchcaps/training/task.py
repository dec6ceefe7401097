"""What a run trains and on what, built and checked before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from torchcaps.data import dataset_info
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import Model, create_model, pretrained_path
from torchcaps.models.base import evaluating
from torchcaps.models.registry import takes_pretrained
from torchcaps.models.weights import OBJECT, ModelCard, read_tensors, with_name
from torchcaps.training.data import (
    Images,
    LabeledImages,
    Splits,
    background,
    first_images,
    has_several_labels,
    load_other,
    load_splits,
)
from torchcaps.training.objective import LossFunction, Objective, as_output
from torchcaps.training.recipe import Recipe
from torchcaps.training.recipe.defaults import with_batch_size


class FinalTest(NamedTuple):
    """One of the tests of a run that has ended."""

    name: str
    images: Images
    preprocess: Preprocess
    crops: int = 1


@dataclass(frozen=True)
class Task:
    """A model, its data and its loss.

    Attributes:
        recipe: how to train; its batch size is set.
        model: the network, on the CPU or on a device.
        card: what is saved with its weights.
        splits: its images.
        preprocess: what happens to images before the model.
        custom_loss: the classification loss if it is a function; otherwise the recipe names it.
        extra: further data sets of the final test, by name.
        num_workers: processes that load images which are not in memory.
    """

    recipe: Recipe
    model: nn.Module
    card: ModelCard
    splits: Splits
    preprocess: Preprocess
    custom_loss: LossFunction | None = None
    extra: Mapping[str, Images] = field(default_factory=dict)
    num_workers: int = 0

    def final_tests(self) -> list[FinalTest]:
        """The tests of the model at the end."""
        tests = final_tests(self.recipe, self.preprocess, self.splits.test, self.extra)
        if self.splits.test is None and self.splits.validation is not None:
            tests.insert(0, FinalTest("validation", self.splits.validation, self.preprocess))
        return tests


def final_tests(
    recipe: Recipe, preprocess: Preprocess, test: Images | None, extra: Mapping[str, Images]
) -> list[FinalTest]:
    """The tests of a recipe's model: on the test images, on crops of them, and on the extra data sets."""
    tests = [] if test is None else [FinalTest("test", test, preprocess)]
    if test is not None and recipe.evaluation.crops > 1:
        tests.append(FinalTest("test_crops", test, preprocess, recipe.evaluation.crops))
    # Extra data sets have sizes of their own, which a model for any size takes as they are.
    plain = Preprocess(standardize=preprocess.standardize)
    return tests + [FinalTest(name, images, plain) for name, images in extra.items()]


def recipe_task(recipe: Recipe, num_workers: int = 0) -> Task:
    """Load the data of a recipe, build its model, and check that they fit."""
    for part in ("model", "data", "loss"):
        name = getattr(recipe, part).name
        if name.startswith(OBJECT):
            raise ValueError(
                f"the {part} of this recipe, {name.removeprefix(OBJECT)}, was given to torchcaps.fit as an "
                "object: call fit with it again (and resume=True to continue the run)"
            )
    options = recipe.model.options
    if recipe.model.pretrained is not None and not takes_pretrained(recipe.model.name):
        # The card must build the same network without the pretrained weights, so it has all their options.
        _, weights_card = read_tensors(pretrained_path(recipe.model.name, recipe.model.pretrained))
        options = {**weights_card["options"], **options}
    check_shape(recipe, options)
    splits = load_splits(recipe.data, recipe.seed)
    recipe = with_batch_size(recipe, len(splits.train))
    card = make_card(recipe, splits.train, splits.train.classes or (), options)
    torch.manual_seed(recipe.seed)
    model = create_model(
        card.model,
        num_classes=card.num_classes,
        in_channels=card.in_channels,
        image_size=card.image_size,
        pretrained=recipe.model.pretrained,
        freeze=recipe.model.freeze,
        **recipe.model.options,
    )
    extra = {name: load_other(recipe, name) for name in recipe.evaluation.extra_datasets}
    preprocess = Preprocess.from_options(recipe.data.preprocess)
    return check_task(Task(recipe, model, card, splits, preprocess, extra=extra, num_workers=num_workers))


def check_shape(recipe: Recipe, options: Mapping[str, Any]) -> None:
    """Refuse a model that cannot take the images of a data set, before the data set is fetched.

    Nothing is computed, and own files, which may have another shape, are checked when they are read.
    """
    published = dataset_info(recipe.data.name).image_shape
    if published is None or recipe.data.dir is not None:
        return
    channels, height, width = published(recipe.data.options)
    size = Preprocess.from_options(recipe.data.preprocess).output_size((height, width))
    try:
        with torch.device("meta"):
            model = create_model(recipe.model.name, in_channels=channels, image_size=size, **options)
            model(torch.empty(2, channels, *size))
    except (NotImplementedError, RuntimeError):
        return  # a network that reads values cannot be tried without them
    except ValueError as fault:
        shape = "×".join(map(str, (channels, height, width)))
        raise ValueError(f"{recipe.data.name} has images of {shape}: {fault}") from fault


def object_task(
    recipe: Recipe,
    model: nn.Module,
    splits: Splits,
    custom_loss: LossFunction | None = None,
    num_workers: int = 0,
) -> Task:
    """A task from a model and data sets that are given as objects; classes without names get numbers."""
    recipe = with_batch_size(recipe, len(splits.train))
    preprocess = Preprocess.from_options(recipe.data.preprocess)
    images, _ = first_images(splits.train)
    torch.manual_seed(recipe.seed)  # lazy layers get their weights in the first forward pass
    scores = as_output(try_model(model, prepare(preprocess, images))).scores
    numbered = tuple(map(str, range(scores.shape[1])))
    for part in (splits.train, splits.validation, splits.test):
        if isinstance(part, LabeledImages):
            part.classes = part.classes or numbered
            part.check()
    card = with_name(make_card(recipe, splits.train, splits.train.classes or numbered, {}), model)
    if isinstance(model, Model):
        model.card = card
    return check_task(Task(recipe, model, card, splits, preprocess, custom_loss, num_workers=num_workers))


def make_card(recipe: Recipe, train: Images, classes: tuple[str, ...], options: dict[str, Any]) -> ModelCard:
    """The card of a model that is trained on these images."""
    images = train.images if isinstance(train, ImageSet) else first_images(train, 16)[0]
    size = Preprocess.from_options(recipe.data.preprocess).output_size((images.shape[2], images.shape[3]))
    return ModelCard(
        model=recipe.model.name,
        options=options,
        num_classes=len(classes),
        in_channels=images.shape[1],
        image_size=size,
        classes=classes,
        preprocess=recipe.data.preprocess,
        background=background(images),
        pad=train.pad,
    )


def prepare(preprocess: Preprocess, images: torch.Tensor) -> torch.Tensor:
    """Preprocess images as in a test, and try whether they could be used in training."""
    try:
        preprocess.train(images, preprocess.draw(len(images), torch.Generator()))
        return preprocess.test(images)
    except ValueError as fault:
        raise ValueError(f"data.preprocess does not fit images {list(images.shape)}: {fault}") from None


@torch.no_grad()
def try_model(model: nn.Module, images: torch.Tensor, name: str = "the training images") -> Any:
    """What a model returns for a few images, in evaluation mode; `name` says in an error which images."""
    parameter = next(model.parameters(), None)
    if parameter is None:
        raise ValueError(f"{type(model).__name__} has no parameters: there is nothing to train")
    with evaluating(model):
        try:
            return model(images.to(parameter.device))
        except (ValueError, RuntimeError) as fault:
            raise ValueError(f"{name}: the model cannot take images {list(images.shape)}: {fault}") from fault


def check_task(task: Task) -> Task:
    """Refuse what would fail later, before the first step and with the remedy.

    Two images of every data set pass through the preprocessing, the model and the loss.
    """
    recipe, preprocess, splits = task.recipe, task.preprocess, task.splits
    check_loss(recipe, task.model, splits.train)
    if not any(parameter.requires_grad for parameter in task.model.parameters()):
        raise ValueError("all parameters are frozen: there is nothing to train; see model.freeze")
    schedule = recipe.schedule
    if schedule.em_inverse_temperature_steps:
        if not any(hasattr(module, "inverse_temperature_factor") for module in task.model.modules()):
            raise ValueError("schedule.em_inverse_temperature_steps needs a model with EM routing")
        if recipe.training.compile:
            raise ValueError(
                "schedule.em_inverse_temperature_steps and training.compile exclude each other: the model "
                "would be compiled again at every step"
            )
    few, labels = first_images(splits.train)
    _check_forward(task, "the training images", prepare(preprocess, few), labels)
    if splits.validation is not None:
        _check_images(task, splits.validation_name, splits.validation, preprocess)
    for test in task.final_tests():
        if test.crops > 1:
            _check_crops(task, first_images(test.images)[0])
        else:
            extra = "evaluation.extra_datasets: " if test.name in task.extra else ""
            _check_images(task, extra + test.name, test.images, test.preprocess)
    return task


def _check_images(task: Task, name: str, images: Images, preprocess: Preprocess) -> None:
    if not len(images):
        raise ValueError(f"{name}: there are no images")
    count = len(images.classes or ())
    if count != task.card.num_classes:
        raise ValueError(f"{name} has {count} classes, but the training images have {task.card.num_classes}")
    few, labels = first_images(images)
    _check_forward(task, name, prepare(preprocess, few), labels)


@torch.no_grad()
def _check_forward(task: Task, name: str, images: torch.Tensor, labels: torch.Tensor) -> None:
    returned = try_model(task.model, images, name)
    scores = as_output(returned).scores
    expected = [len(images), task.card.num_classes]
    if list(scores.shape) != expected:
        raise ValueError(
            f"{name}: the model returns scores {list(scores.shape)}, expected {expected}: "
            f"{expected[0]} images and {expected[1]} classes"
        )
    if task.custom_loss is None and task.recipe.loss.name == "spread" and labels.ndim == 2:
        return
    objective = Objective(task.model, task.recipe.loss, task.custom_loss)
    loss = objective.classification(returned, labels.to(scores.device), 0)
    if not isinstance(loss, torch.Tensor) or loss.ndim:
        what = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise ValueError(f"the loss must be one number, the mean over the batch, as a tensor []; got {what}")


def _check_crops(task: Task, images: torch.Tensor) -> None:
    crops, side = task.recipe.evaluation.crops, task.preprocess.crop
    if side is None:
        raise ValueError(f"evaluation.crops = {crops} needs data.preprocess.crop, the side of a crop")
    before = replace(task.preprocess, crop=None).test(images)
    room = min(before.shape[2:]) - side + 1
    if crops > room:
        raise ValueError(
            f"evaluation.crops = {crops}: crops of {side} pixels fit into {list(before.shape[2:])} at only "
            f"{room} places per side"
        )


def check_loss(recipe: Recipe, model: nn.Module, train: Images) -> None:
    """Refuse a loss that the model or the data do not allow."""
    loss, preprocess = recipe.loss, recipe.data.preprocess
    several = has_several_labels(train)
    if loss.name == "spread" and several:
        raise ValueError("the spread loss takes one class per image; use margin or cross_entropy")
    if not loss.reconstruction:
        return
    if getattr(model, "decoder", None) is None:
        raise ValueError(f"{recipe.model.name} has no decoder: set loss.reconstruction=0")
    if preprocess.get("standardize"):
        raise ValueError("a decoder draws pixels in 0..1: standardized images need loss.reconstruction=0")
    if several:
        metadata: Mapping[str, Any] = train.metadata if isinstance(train, ImageSet) else {}
        if "parts" not in metadata:
            raise ValueError(
                f"{recipe.data.name} has no images of its objects alone: set loss.reconstruction=0"
            )
        if any(preprocess.get(name) for name in ("resize", "translate", "crop", "rotate", "scale", "flip")):
            raise ValueError(
                "the images of objects alone are not augmented: leave resize, translate, crop, rotate, scale "
                "and flip out of data.preprocess, or set loss.reconstruction=0"
            )
