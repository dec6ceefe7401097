"""The agreement that is shown is the one that decides the couplings of the next iteration."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.views.votes import CHOICES, TWINS, Choice, coupling_of, route_image
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
def test_rows_are_the_best_digits_and_lines_are_weighted_means(
    post: Callable[..., dict[str, Any]], store: ModelStore, seven: list[list[float]], routing: str
) -> None:
    response = post("votes", image=seven, routing=routing)
    routed = route_image(store, CHOICES[routing], seven)
    last = routed.steps[-1].activation[0, 0]
    torch.testing.assert_close(last[response["shown"]], last.sort(descending=True).values[:3])
    counts = (
        routed.activation[0] if routing in ("em", "kmeans", "heinsen") else torch.ones(len(response["parts"]))
    )
    torch.testing.assert_close(torch.tensor(response["parts"]), counts, atol=1e-4, rtol=0)
    for answer, step in zip(response["iterations"], routed.steps, strict=True):
        for digit in response["shown"]:
            # "each counted by this activation times what the part sends to the digit"
            sent, agreement = counts * coupling_of(step)[:, digit], routed.agreement(step)[:, digit]
            mean = float((sent / sent.sum()) @ agreement)
            assert answer["agreement"][digit] == pytest.approx(mean, rel=1e-3, abs=1e-3)
        if routing in ("dynamic", "draw"):
            # "A short capsule has small products with all votes"
            votes, lengths = routed.votes.tensor()[0, 0].norm(dim=-1), step.pose[0, 0].norm(dim=-1)
            assert (routed.agreement(step).abs() <= votes * lengths + 1e-5).all()


@pytest.mark.parametrize("choice", CHOICES.values(), ids=lambda choice: "-".join(choice.network))
def test_agreement_decides_the_next_couplings(
    store: ModelStore, seven: list[list[float]], choice: Choice
) -> None:
    routed = route_image(store, choice, seven)
    logits = torch.zeros(())
    for step, after in zip(routed.steps, routed.steps[1:]):
        agreement = routed.agreement(step)
        if choice.measure == "scalar product":
            logits = logits + agreement
        elif choice.measure == "cosine":
            logits = agreement / routed.routing.temperature  # type: ignore[operator]
        else:
            logits = agreement  # the logarithm of density times activation
        torch.testing.assert_close(logits.softmax(1), coupling_of(after), atol=1e-4, rtol=1e-3)


def test_twins_are_routed_as_each_was_trained(
    post: Callable[..., dict[str, Any]], store: ModelStore, seven: list[list[float]]
) -> None:
    twins = post("twins", image=seven)["twins"]
    assert [twin["routing"] for twin in twins] == ["dynamic", "em", "kmeans", "heinsen"]
    for twin in twins:
        network = store[twin["model"], twin["data"]]
        scores = network.model(network.prepare(seven)).scores[0].detach()
        last = torch.tensor(twin["iterations"][-1]["activation"])
        torch.testing.assert_close(last, scores, atol=2e-4, rtol=1e-3)
        largest = torch.stack(
            [coupling_of(step) for step in route_image(store, TWINS[twin["routing"]], seven).steps]
        )
        typical = [step["typical"] for step in twin["iterations"]]
        torch.testing.assert_close(torch.tensor(typical), largest.amax(2).median(1).values, atol=1e-3, rtol=0)
        favorites = [step["favorites"] for step in twin["iterations"]]
        assert set(favorites[0]) == {-1}, "equal shares: no favorite"
        first, second = largest.topk(2).values.unbind(2)
        expected = torch.where(first - second > 1e-6, largest.argmax(2), -1)
        assert favorites == expected.tolist()
