"""How much each entry of a pose matrix matters: the accuracy without it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchcaps.models import Model, capsule_inputs
from torchcaps.models.base import evaluating


@torch.no_grad()
def measure_entries(model: Model, pixels: Tensor, labels: Tensor, batch_size: int = 100) -> dict[str, list]:
    """Accuracy in percent if an entry of all poses below the class capsules is replaced by its mean.

    The mean is over all children of a batch, so that the entry has no information left.

    Args:
        model: a trained network with matrix poses.
        pixels: images `[N, C, H, W]` as the network takes them.
        labels: `[N]`.
        batch_size: images at a time.

    Returns:
        `accuracy`, rows and columns of the pose; and `whole`, the accuracy with all entries.
    """
    correct: Tensor | None = None
    whole = 0
    for images, classes in zip(pixels.split(batch_size), labels.split(batch_size)):
        with evaluating(model):
            layer, children = capsule_inputs(model, images)[1][-1][1:]
        pose, entries = children.pose, children.pose.shape[-1]
        correct = torch.zeros(entries) if correct is None else correct
        whole += int((layer(children).activation.flatten(1).argmax(1) == classes).sum())
        for entry in range(entries):
            without = pose.clone()
            without[..., entry] = pose[..., entry].mean()
            scores = layer(children._replace(pose=without)).activation.flatten(1)
            correct[entry] += (scores.argmax(1) == classes).sum()
    assert correct is not None
    # The entries of a pose are those of a square matrix, row by row.
    side = math.isqrt(len(correct))
    accuracy = (100 * correct / len(labels)).view(side, side)
    return {"accuracy": accuracy.tolist(), "whole": [100 * whole / len(labels)]}


def diagonal_share(accuracy: list[list[float]], whole: float) -> tuple[float, float]:
    """The mean loss of accuracy, in points, by an entry of the diagonal and by another one.

    >>> diagonal_share([[80.0, 90.0], [88.0, 84.0]], 90.0)
    (8.0, 1.0)
    """
    lost = whole - torch.tensor(accuracy)
    diagonal = torch.eye(len(lost), dtype=torch.bool)
    return float(lost[diagonal].mean()), float(lost[~diagonal].mean())
