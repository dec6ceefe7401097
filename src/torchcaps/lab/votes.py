"""The votes of the last layer in the plane, and the clusters that a routing finds among them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.lab.looking import look
from torchcaps.lab.schemas import VotesQuestion
from torchcaps.lab.weights import Shelf, as_numbers
from torchcaps.models.matrix_capsnet import TRAINABLE_EM
from torchcaps.routing import Routing, RoutingOutput, create_routing
from torchcaps.routing.base import weighted_mean
from torchcaps.routing.kmeans import unit
from torchcaps.votes import DenseVotes, Votes

MODEL = ("capsnet_small", "mnist")
SHOWN_CLASSES, SHOWN_CHILDREN, BINS = 3, 200, 24

# The network learned with dynamic routing; the other two meet its votes without having learned anything.
# k-means gets a temperature at which clusters form, EM the constants of the matrix networks.
ROUTINGS: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "kmeans": {"metric": "cosine", "temperature": 0.1},
    "em": TRAINABLE_EM,
}


@torch.no_grad()
def votes(shelf: Shelf, asked: VotesQuestion) -> dict[str, Any]:
    """Route the votes for a digit, and show the strongest children's votes for the three best classes."""
    trained = shelf[MODEL]
    _, layer, children = look(trained.model, trained.prepare(asked.image))
    cast = layer.votes(children)
    if asked.routing == "em":
        cast = directions(cast)
    presence = children.activation.flatten(1)
    routing = choose(asked, layer.routing)
    steps = routing.history(cast, presence)

    vote = cast.tensor()  # [1, 1, children, classes, D]
    order = steps[-1].activation[0, 0].argsort(descending=True)
    classes = order[:SHOWN_CLASSES]
    strong = presence[0].argsort(descending=True)[:SHOWN_CHILDREN]
    shown = vote[0, 0][strong][:, classes]  # [strong, shown classes, D]
    settled = steps[-1].coupling
    assert settled is not None
    # Seen from where the votes that were won in the end lie widest: lost votes point everywhere.
    won = settled[0, 0][strong][:, classes] * presence[0, strong].unsqueeze(1)
    middle, axes, explained = principal_axes(shown.flatten(0, 1), won.flatten())
    flat = as_numbers((shown - middle) @ axes)

    centers = [center(asked.routing, step, vote) for step in steps]
    distances = torch.stack([(shown - each[classes]).norm(dim=-1) for each in centers])
    edges = torch.linspace(0, max(float(distances.max()), 1e-6), BINS + 1)
    iterations = []
    for step, each, distance in zip(steps, centers, distances):
        assert step.coupling is not None
        weight = step.coupling[0, 0][strong][:, classes]
        iterations.append(
            {
                "means": [
                    {"x": x, "y": y, "class": kind}
                    for kind, (x, y) in zip(classes.tolist(), as_numbers((each[classes] - middle) @ axes))
                ],
                "weight": as_numbers(weight.flatten()),
                "activation": as_numbers(step.activation[0, 0]),
                "histogram": histogram(distance, weight, edges, classes),
            }
        )
    return {
        "classes": list(trained.card.classes),
        "best": int(order[0]),
        "points": [
            {"x": x, "y": y, "class": kind, "child": child}
            for child, places in zip(strong.tolist(), flat)
            for kind, (x, y) in zip(classes.tolist(), places)
        ],
        "iterations": iterations,
        "explained": explained,
    }


def choose(asked: VotesQuestion, trained: Routing) -> Routing:
    """The routing to look at; dynamic routing is the network's own, at another number of iterations."""
    options = dict(ROUTINGS[asked.routing])
    if asked.routing == "dynamic":
        kept = ("update", "leaky", "squash")
        options |= {name: getattr(trained, name) for name in kept if hasattr(trained, name)}
    return create_routing(asked.routing, iterations=asked.iterations, **options)


def directions(cast: Votes) -> DenseVotes:
    """Votes scaled to length 1: EM holds short votes, which say nothing to the others, for perfect agreement.

    >>> cast = directions(DenseVotes(torch.ones(1, 2, 1), torch.full((2, 3, 1, 4), 5.0)))
    >>> cast.tensor().shape, cast.tensor().norm(dim=-1).mean().round(decimals=3)
    (torch.Size([1, 1, 2, 3, 4]), tensor(1.))
    """
    vote = unit(cast.tensor()[0, 0])
    return DenseVotes(vote.new_ones(1, len(vote), 1), vote.unsqueeze(2))


def center(routing: str, step: RoutingOutput, vote: Tensor) -> Tensor:
    """Where each cluster stands among its votes, `[classes, D]`.

    k-means and EM answer with it; dynamic routing squashes it, and so what it weighs is averaged here.
    """
    if routing != "dynamic":
        return step.pose[0, 0]
    assert step.coupling is not None
    return weighted_mean(vote, step.coupling)[0][0, 0]


def principal_axes(rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, list[float]]:
    """Middle `[D]`, the two main directions `[D, 2]`, and the share of the weighted variance along each.

    >>> rows = torch.tensor([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [4.0, 0.0, 1.0]])
    >>> principal_axes(rows, torch.ones(3))[2]
    [1.0, 0.0]
    """
    share = (weight / weight.sum().clamp(min=1e-12)).double()
    middle = share @ rows.double()
    apart = rows.double() - middle
    variances, directions = torch.linalg.eigh((share.unsqueeze(1) * apart).T @ apart)
    axes = directions[:, -2:].flip(1)
    # A direction has no sign of its own; without a rule the picture would flip from one image to the next.
    axes = axes * torch.where(axes.gather(0, axes.abs().argmax(0, keepdim=True)) < 0, -1.0, 1.0)
    variances = variances.clamp(min=0)
    explained = variances.flip(0)[:2] / variances.sum().clamp(min=1e-30)
    return middle.to(rows.dtype), axes.to(rows.dtype), as_numbers(explained)


def histogram(distance: Tensor, weight: Tensor, edges: Tensor, classes: Tensor) -> dict[str, Any]:
    """Distances to the mean, `[children, shown classes]`, counted by assignment for each class."""
    counts = {
        str(kind): as_numbers(torch.histogram(distance[:, place], bins=edges, weight=weight[:, place]).hist)
        for place, kind in enumerate(classes.tolist())
    }
    return {"edges": as_numbers(edges, 5), "counts": counts}
