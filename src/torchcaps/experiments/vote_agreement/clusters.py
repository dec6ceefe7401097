"""How far the votes for each class are from their mean, iteration by iteration."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.data.imageset import ImageSet
from torchcaps.models import Model
from torchcaps.training import predict

CASES = ("correct", "wrong")
BINS = 40
MAX_IMAGES = 400  # of each case
MEASURES = ("own", "rival", "share")


class VoteClusters(NamedTuple):
    """The votes for all classes around their means, after one iteration.

    Attributes:
        distance: of each vote from the mean of its class, in units of the mean length of the votes,
            `[B, I, J]`.
        weight: assignment of each vote to the class times the activation of the child, as a share of the sum
            over the image, `[B, I, J]`.
        activation: of the classes, `[B, J]`.
    """

    distance: Tensor
    weight: Tensor
    activation: Tensor


@torch.no_grad()
def vote_clusters(model: Model, images: Tensor) -> list[VoteClusters]:
    """The votes for the classes after each iteration, for images `[B, C, H, W]`."""
    *_, below, classes = model.routing_history(images)
    child = below.iterations[-1].activation.flatten(1).unsqueeze(-1)  # [B, I, 1]
    vote = classes.votes[:, 0]
    unit = vote.norm(dim=-1).mean((1, 2))[:, None, None]
    steps = []
    for step in classes.iterations:
        assert step.coupling is not None
        distance = (vote - step.pose.unsqueeze(1)).norm(dim=-1) / unit
        weight = step.coupling * child
        steps.append(VoteClusters(distance, weight / weight.sum((1, 2), keepdim=True), step.activation))
    return steps


def measure_votes(model: Model, images: ImageSet) -> dict[str, Any]:
    """Accuracy, and the mean of each measure after each iteration, for correct and for wrong images.

    Returns:
        `accuracy`, `limit` (where the histograms end), and for both cases `count`, `steps` and `histograms`.
    """
    pixels = images.images.float() / 255
    correct = predict(model, pixels).scores.argmax(1) == images.labels
    limit = histogram_limit(vote_clusters(model, pixels[:25])[0])
    results: dict[str, Any] = {"accuracy": 100 * float(correct.float().mean()), "limit": limit}
    for case, mask in zip(CASES, (correct, ~correct)):
        chosen = mask.nonzero()[:, 0][:MAX_IMAGES]
        results[case] = {"count": len(chosen), "steps": []}
        if len(chosen):
            batches = [
                [summarize(step, images.labels[part], limit) for step in vote_clusters(model, pixels[part])]
                for part in chosen.split(25)
            ]
            iterations = range(len(batches[0]))
            results[case]["steps"] = [
                {
                    name: torch.cat([batch[number][name] for batch in batches]).mean().item()
                    for name in MEASURES
                }
                for number in iterations
            ]
            results[case]["histograms"] = [
                torch.cat([batch[number]["histogram"] for batch in batches]).mean(0).tolist()
                for number in iterations
            ]
    return results


def histogram_limit(step: VoteClusters) -> float:
    """The distance that 97 % of the votes are below: the end of the histograms."""
    return round(float(step.distance.flatten()[: 2**20].quantile(0.97)), 3)


def summarize(step: VoteClusters, labels: Tensor, limit: float) -> dict[str, Tensor]:
    """The measures of each image.

    Args:
        step: one iteration.
        labels: true classes, `[B]`.
        limit: end of the histograms.

    Returns:
        `own` and `rival`, the mean distances in the true class and in the most active other class, `[B]`;
        `share` of the true class in all votes in percent, `[B]`; `histogram` of the distances of the true
        class and of all others together, `[B, 2, BINS]`.
    """
    rows = torch.arange(len(labels))
    total = step.weight.sum(1)
    mean_distance = (step.weight * step.distance).sum(1) / total.clamp(min=1e-12)
    others = step.activation.scatter(1, labels[:, None], -1)
    rival = others.argmax(1)
    index = (step.distance / limit * BINS).long()
    counted = torch.where(index < BINS, step.weight, 0.0)  # larger distances are not in the histogram
    per_class = torch.zeros(len(labels), BINS, step.weight.shape[2])
    per_class.scatter_add_(1, index.clamp(max=BINS - 1), counted)
    own = per_class[rows, :, labels]
    return {
        "own": mean_distance[rows, labels],
        "rival": mean_distance[rows, rival],
        "share": 100 * total[rows, labels],
        "histogram": torch.stack([own, per_class.sum(2) - own], 1),
    }
