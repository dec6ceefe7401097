"""Votes: the votes of the last layer in the plane, and the iterations of a routing algorithm on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.lab.introspection import inspect_last_layer
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import (
    Histogram,
    MeanPoint,
    VotePoint,
    VotesIteration,
    VotesRequest,
    VotesResponse,
    to_list,
)
from torchcaps.models.matrix_capsnet import TRAINABLE_EM
from torchcaps.routing import Routing, RoutingOutput, create_routing
from torchcaps.routing.base import weighted_mean
from torchcaps.routing.kmeans import unit
from torchcaps.votes import DenseVotes, Votes

MODEL = ("capsnet_small", "mnist")
SHOWN_CLASSES, SHOWN_CHILDREN, BINS = 3, 200, 24

# The network was trained with dynamic routing, not with the other two. k-means gets a temperature at which
# clusters form, EM the constants of the matrix capsule networks.
ROUTINGS: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "kmeans": {"metric": "cosine", "temperature": 0.1},
    "em": TRAINABLE_EM,
}


class Plane(NamedTuple):
    """Two principal axes.

    Attributes:
        origin: weighted mean of the rows, `[D]`.
        axes: the two directions, `[D, 2]`.
        explained_variance: fraction of the weighted variance along each axis.
    """

    origin: Tensor
    axes: Tensor
    explained_variance: list[float]

    def project(self, rows: Tensor) -> Any:
        """Coordinates of rows `[..., D]` as nested lists `[..., 2]`."""
        return to_list((rows - self.origin) @ self.axes)


@torch.no_grad()
def route(store: ModelStore, request: VotesRequest) -> VotesResponse:
    """Route the votes for a digit; return those of the strongest children for the three best classes."""
    network = store[MODEL]
    _, layer, children = inspect_last_layer(network.model, network.prepare(request.image))
    votes = layer.votes(children)
    if request.routing == "em":
        votes = unit_votes(votes)
    activation = children.activation.flatten(1)
    steps = choose_routing(request, layer.routing).history(votes, activation)

    vote = votes.tensor()  # [1, 1, children, classes, D]
    ranking = steps[-1].activation[0, 0].argsort(descending=True)
    classes = ranking[:SHOWN_CLASSES]
    strongest = activation[0].argsort(descending=True)[:SHOWN_CHILDREN]
    shown = vote[0, 0][strongest][:, classes]  # [strongest, shown classes, D]
    # Axes of the votes with a high final weight: the others point in all directions.
    weights = [shown_coupling(step, strongest, classes) for step in steps]
    importance = weights[-1] * activation[0, strongest].unsqueeze(1)
    plane = principal_axes(shown.flatten(0, 1), importance.flatten())

    means = [vote_mean(request.routing, step, vote)[classes] for step in steps]
    distances = torch.stack([(shown - mean).norm(dim=-1) for mean in means])
    edges = torch.linspace(0, max(float(distances.max()), 1e-6), BINS + 1)
    labels = classes.tolist()
    return VotesResponse(
        classes=list(network.card.classes),
        best=int(ranking[0]),
        points=[
            VotePoint(x=x, y=y, class_=label, child=child)
            for child, row in zip(strongest.tolist(), plane.project(shown))
            for label, (x, y) in zip(labels, row)
        ],
        iterations=[
            VotesIteration(
                means=[
                    MeanPoint(x=x, y=y, class_=label) for label, (x, y) in zip(labels, plane.project(mean))
                ],
                weight=to_list(weight.flatten()),
                activation=to_list(step.activation[0, 0]),
                histogram=histogram(distance, weight, edges, labels),
            )
            for step, mean, weight, distance in zip(steps, means, weights, distances)
        ],
        explained_variance=plane.explained_variance,
    )


def choose_routing(request: VotesRequest, trained: Routing) -> Routing:
    """The requested routing; dynamic routing is the network's own with another number of iterations."""
    options = dict(ROUTINGS[request.routing])
    if request.routing == "dynamic":
        names = ("update", "leaky", "squash")
        options |= {name: getattr(trained, name) for name in names if hasattr(trained, name)}
    return create_routing(request.routing, iterations=request.iterations, **options)


def shown_coupling(step: RoutingOutput, children: Tensor, classes: Tensor) -> Tensor:
    """The couplings `[children, classes]` of the children and classes that are shown."""
    assert step.coupling is not None
    return step.coupling[0, 0][children][:, classes]


def unit_votes(votes: Votes) -> DenseVotes:
    """Votes scaled to length 1: EM would take short votes, which are all close to 0, for perfect agreement.

    >>> votes = unit_votes(DenseVotes(torch.ones(1, 2, 1), torch.full((2, 3, 1, 4), 5.0)))
    >>> votes.tensor().shape, votes.tensor().norm(dim=-1).mean().round(decimals=3)
    (torch.Size([1, 1, 2, 3, 4]), tensor(1.))
    """
    vote = unit(votes.tensor()[0, 0])
    return DenseVotes(vote.new_ones(1, len(vote), 1), vote.unsqueeze(2))


def vote_mean(routing: str, step: RoutingOutput, vote: Tensor) -> Tensor:
    """The mean of each class's votes, `[classes, D]`.

    k-means and EM return it as the pose. Dynamic routing squashes its sum of votes, so there it is computed
    from the couplings.
    """
    if routing != "dynamic":
        return step.pose[0, 0]
    assert step.coupling is not None
    return weighted_mean(vote, step.coupling)[0][0, 0]


def principal_axes(rows: Tensor, weight: Tensor) -> Plane:
    """The two main directions of weighted rows `[N, D]`.

    >>> rows = torch.tensor([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [4.0, 0.0, 1.0]])
    >>> principal_axes(rows, torch.ones(3)).explained_variance
    [1.0, 0.0]
    """
    share = (weight / weight.sum().clamp(min=1e-12)).double()
    mean = share @ rows.double()
    centered = rows.double() - mean
    variances, directions = torch.linalg.eigh((share.unsqueeze(1) * centered).T @ centered)
    axes = directions[:, -2:].flip(1)
    # The sign of an eigenvector is arbitrary: fix it, or the picture would flip from one image to the next.
    axes = axes * torch.where(axes.gather(0, axes.abs().argmax(0, keepdim=True)) < 0, -1.0, 1.0)
    variances = variances.clamp(min=0)
    explained = variances.flip(0)[:2] / variances.sum().clamp(min=1e-30)
    return Plane(mean.to(rows.dtype), axes.to(rows.dtype), to_list(explained))


def histogram(distance: Tensor, weight: Tensor, edges: Tensor, labels: list[int]) -> Histogram:
    """Histograms of distances `[children, classes]` to the mean, one per class."""
    counts = {
        str(label): to_list(torch.histogram(distance[:, column], bins=edges, weight=weight[:, column]).hist)
        for column, label in enumerate(labels)
    }
    return Histogram(edges=to_list(edges, 5), counts=counts)
