from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import Model
from torchcaps.training.metrics import Evaluation, Sums
from torchcaps.training.objective import Objective
from torchcaps.training.recipe import LossPart

# Where a margin rises in training, tests are measured with the margin it rises to: comparable all along.
LAST_STEP = 2**62


@torch.no_grad()
def evaluate(
    model: Model,
    images: ImageSet,
    preprocess: Preprocess | None = None,
    *,
    batch_size: int = 256,
    crops: int = 1,
    loss: LossPart | None = None,
    rank: int = 0,
    world_size: int = 1,
    add_up: Callable[[Tensor], Tensor] = lambda sums: sums,
) -> Evaluation:
    """Test a model.

    Args:
        model: the network; it is put back into training mode if it was in it.
        images: what to test on; labels `[N]`, or `[N, K]` where all K must be right.
        preprocess: the same as in training.
        batch_size: images at a time.
        crops: test on `crops`² crops of each image and average the scores.
        loss: gives the classification loss too; not with several crops.
        rank: which share of the images this process takes.
        world_size: number of processes.
        add_up: adds a tensor over all processes.

    Example:
        >>> from torchcaps.data import load
        >>> from torchcaps.models import create_model
        >>> evaluate(create_model("pooled_cnn", image_size=16), load("digits", "test", size=16)).count
        355
    """
    preprocess = preprocess or Preprocess()
    device = next(model.parameters()).device
    single = images.labels.ndim == 1
    sums = Sums(images.classes, 1 if single else images.labels.shape[1], device)
    measured = loss is not None and crops == 1 and (single or loss.name != "spread")
    objective = Objective(model, loss) if measured and loss is not None else None
    mine = torch.arange(len(images))[rank::world_size]
    with evaluating(model):
        # With more processes than images some have none, of which `split` would still make a batch.
        for chosen in mine.split(batch_size) if len(mine) else ():
            labels = images.labels[chosen].to(device)
            pictures = images.images[chosen].to(device)
            if crops > 1:
                views = preprocess.test_crops(pictures, crops)
                scores = model(views.flatten(0, 1)).scores.float()
                sums.add(scores.unflatten(0, views.shape[:2]).mean(1), labels)
                continue
            pictures = preprocess.test(pictures)
            output = model(pictures)
            drawn = None
            if output.reconstruction is not None and single:
                drawn = (output.reconstruction.float() - pictures).square().flatten(1).sum(1)
            average = None if objective is None else objective.classification(output, labels, LAST_STEP)
            sums.add(output.scores.float(), labels, loss=average, reconstruction=drawn)
    sums.totals, sums.confusion = add_up(sums.totals), add_up(sums.confusion)
    return sums.evaluation()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while.

    >>> layer = nn.Dropout()
    >>> with evaluating(layer):
    ...     layer.training
    False
    >>> layer.training
    True
    """
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)
