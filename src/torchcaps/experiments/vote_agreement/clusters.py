"""How far the votes for each class are from their mean, iteration by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.models import Model
from torchcaps.training import predict

CASES = ("correct", "wrong")
BINS = 40
MAX_IMAGES = 400  # of each case
MEASURES = ("own", "rival", "share")
HISTOGRAMS = ("clipped", "complete")


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


def measure_votes(model: Model, pixels: Tensor, labels: Tensor) -> dict[str, Any]:
    """Accuracy, and the mean of each measure after each iteration, for correct and for wrong images.

    Args:
        model: a network with capsules below its class capsules.
        pixels: images as the network takes them, `[N, C, H, W]`.
        labels: true classes, `[N]`.

    Returns:
        `accuracy`, `limits` (where the clipped and the complete histograms end), and for both cases `count`,
        `steps`, and the histograms `clipped` and `complete`.
    """
    correct = predict(model, pixels).scores.argmax(1) == labels
    limits = histogram_limits(vote_clusters(model, pixels[:25]))
    results: dict[str, Any] = {"accuracy": 100 * float(correct.float().mean()), "limits": limits}
    for case, mask in zip(CASES, (correct, ~correct)):
        chosen = mask.nonzero()[:, 0][:MAX_IMAGES]
        results[case] = {"count": len(chosen), "steps": []}
        if len(chosen):
            batches = [
                [summarize(step, labels[part], limits) for step in vote_clusters(model, pixels[part])]
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
            for kind in HISTOGRAMS:
                results[case][kind] = [
                    torch.cat([batch[number][kind] for batch in batches]).mean(0).tolist()
                    for number in iterations
                ]
    return results


def histogram_limits(steps: Sequence[VoteClusters]) -> dict[str, float]:
    """Where histograms end: clipped where 97 % of the first votes are below, complete at the largest one."""
    clipped = float(steps[0].distance.flatten()[: 2**20].quantile(0.97))
    complete = max(float(step.distance.max()) for step in steps)
    return {"clipped": round(clipped, 3), "complete": round(complete, 3) + 1e-3}


def summarize(step: VoteClusters, labels: Tensor, limits: Mapping[str, float]) -> dict[str, Tensor]:
    """The measures of each image.

    Args:
        step: one iteration.
        labels: true classes, `[B]`.
        limits: ends of the histograms; larger distances are not in them.

    Returns:
        `own` and `rival`, the mean distances in the true class and in the most active other class, `[B]`;
        `share` of the true class in all votes in percent, `[B]`; for each limit the histogram of the
        distances of the true class, of the most active other class, and of all others, `[B, 3, BINS]`.
    """
    rows = torch.arange(len(labels))
    total = step.weight.sum(1)
    mean_distance = (step.weight * step.distance).sum(1) / total.clamp(min=1e-12)
    others = step.activation.scatter(1, labels[:, None], -1)
    rival = others.argmax(1)
    results = {
        "own": mean_distance[rows, labels],
        "rival": mean_distance[rows, rival],
        "share": 100 * total[rows, labels],
    }
    for kind, limit in limits.items():
        index = (step.distance / limit * BINS).long()
        counted = torch.where(index < BINS, step.weight, 0.0)
        per_class = torch.zeros(len(labels), BINS, step.weight.shape[2])
        per_class.scatter_add_(1, index.clamp(max=BINS - 1), counted)
        own, strongest = per_class[rows, :, labels], per_class[rows, :, rival]
        results[kind] = torch.stack([own, strongest, per_class.sum(2) - own - strongest], 1)
    return results
