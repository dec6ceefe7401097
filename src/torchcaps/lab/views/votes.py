"""Votes: how well the votes of the last layer agree with each class, in every iteration of a routing."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.lab.introspection import inspect_last_layer
from torchcaps.lab.model_store import ModelKey, ModelStore
from torchcaps.lab.schemas import VotesIteration, VotesRequest, VotesResponse, to_list
from torchcaps.routing import EMRouting, KMeansRouting, Routing, RoutingOutput, create_routing
from torchcaps.routing.kmeans import unit
from torchcaps.votes import Votes, agreement

SHOWN_CLASSES = 3


class Choice(NamedTuple):
    """A routing that can be chosen.

    Attributes:
        network: whose votes are routed.
        measure: what the routing calls agreement.
        options: of a routing that replaces the network's own; `None` for the one it was trained with.
    """

    network: ModelKey
    measure: str
    options: dict[str, Any] | None = None


# No network that was trained with k-means comes with the package. At this temperature clusters form.
CHOICES = {
    "dynamic": Choice(("capsnet_small", "mnist"), "scalar product"),
    "em": Choice(("matrix_capsnet_small", "mnist"), "log density"),
    "kmeans": Choice(("capsnet_small", "mnist"), "cosine", {"metric": "cosine", "temperature": 0.1}),
}


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

    def weight(self, step: RoutingOutput) -> Tensor:
        """How much each vote counts, `[children, classes]`: coupling, times activation where that is used."""
        assert step.coupling is not None
        if not self.routing.uses_activation:
            return step.coupling[0, 0]  # the length of a vote includes the activation already
        return step.coupling[0, 0] * self.votes.gather(self.activation)[0, 0].unsqueeze(-1)


@torch.no_grad()
def route(store: ModelStore, request: VotesRequest) -> VotesResponse:
    """Route the votes for a digit; return the agreements of all votes for the three best classes."""
    choice = CHOICES[request.routing]
    routed = route_image(store, request)
    mean = [mean_agreement(routed, step) for step in routed.steps]
    trained = choice.options is None
    score = routed.steps[-1].activation[0, 0] if trained else mean[-1]
    shown = score.argsort(descending=True)[:SHOWN_CLASSES]
    return VotesResponse(
        measure=choice.measure,
        trained=trained,
        model=choice.network[0],
        data=choice.network[1],
        shown=shown.tolist(),
        iterations=[
            VotesIteration(
                activation=to_list(step.activation[0, 0]),
                agreement=to_list(average),
                share=to_list(routed.weight(step).sum(0) / routed.weight(step).sum()),
                agreements=to_list(routed.agreement(step).T[shown], 3),
                couplings=to_list(coupling_of(step).T[shown], 3),
            )
            for step, average in zip(routed.steps, mean)
        ],
    )


@torch.no_grad()
def route_image(store: ModelStore, request: VotesRequest) -> Routed:
    """Run the network up to its last layer, and route the votes; the network's own number of iterations."""
    choice = CHOICES[request.routing]
    network = store[choice.network]
    _, layer, children = inspect_last_layer(network.model, network.prepare(request.image))
    routing = layer.routing
    if choice.options is not None:
        routing = create_routing(request.routing, iterations=routing.iterations, **choice.options)
    votes, activation = layer.votes(children), children.activation.flatten(1)
    return Routed(routing, votes, activation, routing.history(votes, activation))


def measure_agreement(routing: Routing, votes: Votes, activation: Tensor, step: RoutingOutput) -> Tensor:
    r"""What the routing compares, `[children, classes]`; it decides the couplings of the next iteration.

    - dynamic routing: the scalar product of vote and class capsule, :math:`\langle \hat u_{ij}, v_j \rangle`;
    - k-means: their cosine;
    - EM: the logarithm of the density of the class's Gaussian at the vote, :math:`\ln p_j(V_{ij})`.
    """
    vote = votes.tensor()
    if isinstance(routing, KMeansRouting):
        return agreement(unit(vote), unit(step.pose))[0, 0]
    if not isinstance(routing, EMRouting):
        return agreement(vote, step.pose)[0, 0]
    assert step.coupling is not None
    weight = step.coupling * votes.gather(activation).unsqueeze(-1)
    share = (weight / weight.sum(2, keepdim=True).clamp(min=1e-12)).unsqueeze(-1)
    square = (vote - step.pose.unsqueeze(2)).square()
    variance = (share * square).sum(2, keepdim=True) + routing.gaussian.epsilon
    return (-(square / variance + variance.log() + math.log(2 * math.pi)) / 2).sum(-1)[0, 0]


def mean_agreement(routed: Routed, step: RoutingOutput) -> Tensor:
    """The mean agreement with each class over all votes, each with its weight, `[classes]`."""
    weight = routed.weight(step)
    return (weight * routed.agreement(step)).sum(0) / weight.sum(0).clamp(min=1e-12)


def coupling_of(step: RoutingOutput) -> Tensor:
    """The couplings `[children, classes]`."""
    assert step.coupling is not None
    return step.coupling[0, 0]
