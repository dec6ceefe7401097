"""Votes: how well the votes of the last layer agree with each class, in every iteration of a routing."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from torchcaps.lab.introspection import inspect_last_layer
from torchcaps.lab.model_store import ModelKey, ModelStore
from torchcaps.lab.schemas import (
    DrawRequest,
    TwinsResponse,
    VotesIteration,
    VotesRequest,
    VotesResponse,
    to_list,
)
from torchcaps.routing import EMRouting, HeinsenRouting, KMeansRouting, Routing, RoutingOutput
from torchcaps.routing.kmeans import unit
from torchcaps.votes import Votes, agreement

SHOWN_CLASSES = 3


class Choice(NamedTuple):
    """A network and what its routing calls agreement."""

    network: ModelKey
    measure: str


# Twins: the same network but for routing and poses, trained on the same images with the same number of steps.
TWINS = {
    name: Choice(("capsule_head", f"mnist-twin-{name}"), measure)
    for name, measure in {
        "dynamic": "scalar product",
        "em": "log of density × activation",
        "kmeans": "cosine",
        "heinsen": "log of density × activation",
    }.items()
}
CHOICES = {**TWINS, "draw": Choice(("capsnet_small", "mnist"), "scalar product")}


class Routed(NamedTuple):
    """The votes for one image and what a routing made of them.

    Attributes:
        routing: the routing.
        votes: of the last layer.
        activation: of the children `[1, N]`.
        steps: the iterations.
    """

    routing: Routing
    votes: Votes
    activation: Tensor
    steps: list[RoutingOutput]

    def agreement(self, step: RoutingOutput) -> Tensor:
        """How well each vote agrees with its class, `[children, classes]`."""
        return measure_agreement(self.routing, self.votes, self.activation, step)

    def parts(self) -> Tensor:
        """How much each child counts, `[children]`: its activation where that is used, else 1."""
        child = self.votes.gather(self.activation)[0, 0]
        # Without: the length of a vote includes the activation already.
        return child if self.routing.uses_activation else torch.ones_like(child)

    def weight(self, step: RoutingOutput) -> Tensor:
        """How much each vote counts, `[children, classes]`: the coupling times what the child counts."""
        return coupling_of(step) * self.parts().unsqueeze(-1)


def route(store: ModelStore, request: VotesRequest) -> VotesResponse:
    """Route the votes for a digit with one network."""
    choice = CHOICES[request.routing]
    return describe(request.routing, choice, route_image(store, choice, request.image))


def compare(store: ModelStore, request: DrawRequest) -> TwinsResponse:
    """Route the votes for a digit with each of the twins."""
    return TwinsResponse(
        twins=[
            describe(name, choice, route_image(store, choice, request.image))
            for name, choice in TWINS.items()
        ]
    )


@torch.no_grad()
def describe(routing: str, choice: Choice, routed: Routed) -> VotesResponse:
    """The agreements of all votes for the classes that the network finds best."""
    shown = routed.steps[-1].activation[0, 0].topk(SHOWN_CLASSES).indices.tolist()
    return VotesResponse(
        routing=routing,
        measure=choice.measure,
        model=choice.network[0],
        data=choice.network[1],
        shown=shown,
        parts=to_list(routed.parts()),
        iterations=[
            VotesIteration(
                activation=to_list(step.activation[0, 0]),
                agreement=to_list(mean_agreement(routed, step)),
                share=to_list(routed.weight(step).sum(0) / routed.weight(step).sum()),
                agreements=to_list(routed.agreement(step).T[shown], 3),
                couplings=to_list(coupling_of(step).T[shown], 3),
                typical=round(float(coupling_of(step).amax(1).median()), 4),
                favorites=favorites(coupling_of(step)).tolist(),
            )
            for step in routed.steps
        ],
    )


def favorites(coupling: Tensor) -> Tensor:
    """The class that each child sends most to `[children]`; -1 if it sends equally much to several.

    >>> favorites(torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]]))
    tensor([ 1, -1])
    """
    two = coupling.topk(2)
    return torch.where(two.values[:, 0] - two.values[:, 1] > 1e-6, two.indices[:, 0], -1)


@torch.no_grad()
def route_image(store: ModelStore, choice: Choice, image: list[list[float]]) -> Routed:
    """Run the network up to its last layer, and route the votes as the network does."""
    network = store[choice.network]
    _, layer, children = inspect_last_layer(network.model, network.prepare(image))
    votes, activation = layer.votes(children), children.activation.flatten(1)
    return Routed(layer.routing, votes, activation, layer.routing.history(votes, activation))


def measure_agreement(routing: Routing, votes: Votes, activation: Tensor, step: RoutingOutput) -> Tensor:
    r"""What the routing compares, `[children, classes]`; it decides the couplings of the next iteration.

    - dynamic routing: the scalar product of vote and class capsule, :math:`\langle \hat u_{ij}, v_j \rangle`;
    - k-means: their cosine;
    - EM and the routing of Heinsen 2019: the logarithm of the density of the class's Gaussian at the vote,
      times the activation of the class, :math:`\ln p_j(V_{ij}) + \ln a_j`.
    """
    vote = votes.tensor()
    if isinstance(routing, KMeansRouting):
        return agreement(unit(vote), unit(step.pose))[0, 0]
    if not isinstance(routing, (EMRouting, HeinsenRouting)):
        return agreement(vote, step.pose)[0, 0]
    assert step.coupling is not None
    weight = step.coupling * votes.gather(activation).unsqueeze(-1)
    share = (weight / weight.sum(2, keepdim=True).clamp(min=1e-12)).unsqueeze(-1)
    square = (vote - step.pose.unsqueeze(2)).square()
    variance = (share * square).sum(2, keepdim=True) + routing.gaussian.epsilon
    log_density = (-(square / variance + variance.log() + math.log(2 * math.pi)) / 2).sum(-1)
    return (log_density + logsigmoid(step.logits).unsqueeze(2))[0, 0]


def mean_agreement(routed: Routed, step: RoutingOutput) -> Tensor:
    """The mean agreement with each class over all votes, each with its weight, `[classes]`."""
    weight = routed.weight(step)
    return (weight * routed.agreement(step)).sum(0) / weight.sum(0).clamp(min=1e-12)


def coupling_of(step: RoutingOutput) -> Tensor:
    """The couplings `[children, classes]`."""
    assert step.coupling is not None
    return step.coupling[0, 0]
