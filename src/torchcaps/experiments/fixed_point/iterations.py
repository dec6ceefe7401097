"""Routing a trained layer for a hundred iterations, with either update of the logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.statistics import normalized_entropy
from torchcaps.layers import CapsuleLayer
from torchcaps.models import Model, capsule_inputs
from torchcaps.models.base import evaluating
from torchcaps.routing import DynamicRouting

ITERATIONS = 100
Curves = dict[str, Any]
"""Results of `measure_iterations`: lists over the iterations, and the final percentage of hard couplings."""


def last_layer_inputs(model: Model, images: Tensor) -> tuple[CapsuleLayer, Capsules]:
    """The last capsule layer of a network, and its input capsules for some images."""
    with torch.no_grad(), evaluating(model):
        _, inputs = capsule_inputs(model, images)
    return inputs[-1][1:]


def with_update(trained: DynamicRouting, update: str, iterations: int = ITERATIONS) -> DynamicRouting:
    """The routing of a trained layer, with another update of the logits and number of iterations."""
    routing = DynamicRouting(iterations=iterations, update=update, leaky=trained.leaky, squash=trained.squash)
    routing.bias = trained.bias
    return routing


@torch.no_grad()
def measure_iterations(model: Model, images: ImageSet, update: str, batch_size: int = 100) -> Curves:
    """Accuracy, entropy of the couplings and change of the poses after each iteration, mean over images.

    Iteration r of a long routing is the last iteration of a routing with r iterations, so one pass gives the
    accuracy for every r.
    """
    entropy, change, correct = (torch.zeros(ITERATIONS, dtype=torch.float64) for _ in range(3))
    hard = 0.0
    for chosen in torch.arange(len(images)).split(batch_size):
        layer, children = last_layer_inputs(model, images.images[chosen].float() / 255)
        assert isinstance(layer.routing, DynamicRouting)
        routing = with_update(layer.routing, update)
        previous: Tensor | None = None
        steps = routing.iterate(layer.votes(children), children.activation.flatten(1))
        share = len(chosen) / len(images)
        for number, step in enumerate(steps):
            coupling, best = step.coupling, step.activation[:, 0].argmax(-1)
            assert coupling is not None
            entropy[number] += share * normalized_entropy(coupling)
            correct[number] += (best == images.labels[chosen]).sum() / len(images)
            if previous is not None:
                change[number] += share * float((step.pose - previous).norm(dim=-1).mean())
            previous = step.pose
            if number == ITERATIONS - 1:
                hard += share * float(((coupling - coupling.round()).abs() < 0.01).float().mean())
    return {
        "entropy": (100 * entropy).tolist(),
        "change": change.tolist(),
        "accuracy": (100 * correct).tolist(),
        "hard": 100 * hard,
    }


@torch.no_grad()
def sorted_couplings(model: Model, image: Tensor, update: str, shown: tuple[int, ...]) -> list[Tensor]:
    """Couplings `[children, classes]` of the 64 most active children, after some iterations.

    The children are sorted by the class that has most of them after `ITERATIONS` of accumulation.

    Args:
        model: a trained network with dynamic routing.
        image: `[1, C, H, W]`.
        update: update of the logits.
        shown: iterations to return, counted from 1.
    """
    layer, children = last_layer_inputs(model, image)
    trained = layer.routing
    assert isinstance(trained, DynamicRouting)
    votes, activation = layer.votes(children), children.activation.flatten(1)

    def couplings(kind: str) -> list[Tensor]:
        steps = with_update(trained, kind).history(votes, activation)
        return [step.coupling[0, 0] for step in steps if step.coupling is not None]

    strongest = activation[0].argsort(descending=True)[:64]
    last = couplings("accumulate")[-1][strongest]
    order = strongest[(last.argmax(1) * 2.0 - last.amax(1)).argsort()]
    return [couplings(update)[number - 1][order] for number in shown]
