"""The agreement that is shown is the one that decides the couplings of the next iteration."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import VotesRequest
from torchcaps.lab.views.votes import CHOICES, coupling_of, route_image
from torchcaps.routing import Routing


@pytest.mark.parametrize("routing", CHOICES)
def test_votes_returns_every_iteration_of_the_network(
    post: Callable[..., dict[str, Any]], store: ModelStore, seven: list[list[float]], routing: str
) -> None:
    response = post("votes", image=seven, routing=routing)
    network = store[CHOICES[routing].network].model
    assert (
        len(response["iterations"]) == [m for m in network.modules() if isinstance(m, Routing)][-1].iterations
    )
    assert len(set(response["shown"])) == 3
    for step in response["iterations"]:
        assert len(step["activation"]) == len(step["agreement"]) == len(step["share"]) == 10
        assert sum(step["share"]) == pytest.approx(1, abs=1e-3)
        assert [len(row) for row in step["agreements"]] == [len(row) for row in step["couplings"]]
    first = torch.tensor(response["iterations"][0]["couplings"])
    torch.testing.assert_close(first, torch.full_like(first, 0.1))


@pytest.mark.parametrize("routing", CHOICES)
def test_agreement_decides_the_next_couplings(
    store: ModelStore, seven: list[list[float]], routing: str
) -> None:
    routed = route_image(store, VotesRequest(image=seven, routing=routing))  # type: ignore[arg-type]
    logits = torch.zeros(())
    for step, after in zip(routed.steps, routed.steps[1:]):
        agreement = routed.agreement(step)
        if routing == "dynamic":
            logits = logits + agreement
        elif routing == "kmeans":
            logits = agreement / 0.1
        else:
            logits = agreement + step.activation[0, 0].log()
        torch.testing.assert_close(logits.softmax(1), coupling_of(after), atol=1e-4, rtol=1e-3)
