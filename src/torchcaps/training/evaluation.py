from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchcaps.data.batches import make_batches
from torchcaps.data.preprocess import Preprocess
from torchcaps.models.base import evaluating
from torchcaps.training.data import as_images, first_images, has_several_labels
from torchcaps.training.metrics import Evaluation, MetricSums
from torchcaps.training.objective import LossFunction, Objective, as_output
from torchcaps.training.recipe import LossPart

# Where a margin rises in training, tests use the margin at its end, so that their losses can be compared.
LAST_STEP = 2**62


@torch.no_grad()
def evaluate(
    model: nn.Module,
    images: Any,
    preprocess: Preprocess | None = None,
    *,
    batch_size: int = 256,
    crops: int = 1,
    loss: LossPart | None = None,
    custom_loss: LossFunction | None = None,
    num_workers: int = 0,
    rank: int = 0,
    world_size: int = 1,
    add_up: Callable[[Tensor], Tensor] = lambda sums: sums,
) -> Evaluation:
    """Test a model.

    Args:
        model: returns `Output` or logits `[B, classes]`; it is put back into training mode if it was in it.
        images: an `ImageSet`, or any map-style data set of `(image, label)`. With K labels per image, all
            must be right.
        preprocess: the same as in training.
        batch_size: images at a time.
        crops: test on `crops`² crops of each image and average the scores.
        loss: measures the classification loss too; not with several crops.
        custom_loss: the same, for a loss function of your own.
        num_workers: processes that load images which are not in memory.
        rank: which share of the images this process takes.
        world_size: number of processes.
        add_up: adds a tensor over all processes.

    Example:
        >>> from torchcaps.data import load
        >>> from torchcaps.models import create_model
        >>> evaluate(create_model("pooled_cnn", image_size=16), load("digits", "test", size=16)).count
        355
    """
    images = as_images(images)
    preprocess = preprocess or Preprocess()
    device = next(model.parameters()).device
    several = has_several_labels(images)
    objective = None
    if crops == 1 and (custom_loss or (loss is not None and not (several and loss.name == "spread"))):
        objective = Objective(model, loss or LossPart(), custom_loss)
    with evaluating(model):
        classes = images.classes
        if classes is None:
            few = preprocess.test(first_images(images)[0].to(device))
            classes = tuple(map(str, range(as_output(model(few)).scores.shape[1])))
        sums = MetricSums(classes, device)
        share = torch.arange(len(images))[rank::world_size]
        mine = images if world_size == 1 else images.select(share) if len(share) else None
        batches = (
            ()
            if mine is None
            else make_batches(
                mine,
                batch_size,
                train=False,
                preprocess=Crops(preprocess, crops) if crops > 1 else preprocess,  # type: ignore[arg-type]
                device=device,
                num_workers=num_workers,
            ).epoch(0)
        )
        for batch in batches:
            if crops > 1:
                scores = as_output(model(batch.images.flatten(0, 1))).scores.float()
                sums.add(scores.unflatten(0, batch.images.shape[:2]).mean(1), batch.labels)
                continue
            returned = model(batch.images)
            output = as_output(returned)
            error = None
            if output.reconstruction is not None and not several:
                error = (output.reconstruction.float() - batch.images).square().flatten(1).sum(1)
            mean = None if objective is None else objective.classification(returned, batch.labels, LAST_STEP)
            sums.add(output.scores.float(), batch.labels, loss=mean, reconstruction=error)
    sums.totals, sums.confusion = add_up(sums.totals), add_up(sums.confusion)
    return sums.evaluation()


@dataclass(frozen=True)
class Crops:
    """Preprocessing for a test on `per_side`² crops of each image: `[B, per_side², C, h, w]`."""

    preprocess: Preprocess
    per_side: int

    def test(self, images: Tensor) -> Tensor:
        """All crops of some images."""
        return self.preprocess.test_crops(images, self.per_side)
