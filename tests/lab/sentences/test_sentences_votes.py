"""Sentences of Votes: each holds for 40 of 40 inputs."""

import numpy as np
import pytest
import torch

from support.lab_digits import COUNT, count, digits
from torchcaps.lab import schemas
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.views import draw, votes
from torchcaps.losses import margin_loss
from torchcaps.training.recipe.files import load_recipe


@pytest.mark.parametrize("choice", votes.CHOICES.values(), ids=lambda choice: "-".join(choice.network))
def test_a_part_sends_most_to_the_digit_it_agrees_with(store: ModelStore, choice: votes.Choice) -> None:
    """ "A part sends most to the digit …", and the first iteration has equal shares."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        routed = votes.route_image(store, choice, digit.image)
        total, right = torch.zeros(()), True
        for step, after in zip(routed.steps, routed.steps[1:]):
            agreement = routed.agreement(step)
            total = total + agreement if choice.measure == "scalar product" else agreement
            coupling = votes.coupling_of(after)
            chosen = coupling.gather(1, total.argmax(1, keepdim=True)).squeeze(1)
            right &= bool((chosen >= coupling.amax(1) - 1e-6).all())
        first = votes.coupling_of(routed.steps[0])
        return right and bool((first - 0.1).abs().max() < 1e-6)

    assert count(holds) == COUNT


@pytest.mark.parametrize("routing", ["dynamic", "draw"])
def test_the_agreement_with_the_winner_rises(store: ModelStore, routing: str) -> None:
    """The picture that Votes opens with, and its second: the farther right the mean, the better the digit."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        request = schemas.VotesRequest(image=digit.image, routing=routing)  # type: ignore[arg-type]
        response = votes.route(store, request)
        first, last = response.iterations[0], response.iterations[-1]
        best = last.activation.index(max(last.activation))
        farthest = all(step.agreement[best] == max(step.agreement) for step in response.iterations)
        return (
            farthest and last.agreement[best] > first.agreement[best] and last.share[best] == max(last.share)
        )

    assert count(holds) == COUNT


@pytest.mark.parametrize("routing", ["em", "heinsen"])
def test_what_the_activation_depends_on(store: ModelStore, routing: str) -> None:
    """ "The activation also depends on how much a digit gets", "… only on what each part sends".

    That of EM is a function of the variances of the votes and of the sum of the weights; that of Heinsen
    (2019), of the weights. The mean agreement is the logarithm of the activation, and with the weighted
    variances v of the votes -Σ (v / (v + ε) + ln (v + ε) + ln 2π) / 2.
    """

    @torch.no_grad()
    def holds(digit: schemas.ExampleDigit) -> bool:
        routed = votes.route_image(store, votes.TWINS[routing], digit.image)
        step, rule = routed.steps[-1], routed.routing
        weight, vote = routed.weight(step), routed.votes.tensor()[0, 0]
        share = (weight / weight.sum(0)).unsqueeze(-1)
        alone = (share * (vote - (share * vote).sum(0)).square()).sum(0)
        variance = alone + rule.gaussian.epsilon
        expected = -(alone / variance + (2 * np.pi * variance).log()).sum(-1) / 2
        expected = expected + torch.nn.functional.logsigmoid(step.logits[0, 0])
        right = torch.allclose(votes.mean_agreement(routed, step), expected, atol=0.01)
        if routing == "em":
            code = vote.shape[-1] * rule.beta_u + variance.log().sum(-1) / 2
            mass = weight.sum(0) * (weight.shape[1] / weight.shape[0] if rule.normalize_mass else 1)
            logit = rule.inverse_temperature_at(rule.iterations - 1) * (rule.beta_a - code * mass)
        else:
            child = routed.activation[0].unsqueeze(-1)
            use, ignore = (routed.votes.expand_rows(each)[0, 0] for each in (rule.beta_use, rule.beta_ignore))
            logit = (use * weight - ignore * (child - weight)).sum(0)
        return bool(right) and torch.allclose(step.activation[0, 0], logit.sigmoid(), atol=1e-3)

    assert count(holds) == COUNT


def test_the_network_of_draw_routes_less_than_its_small_twin(store: ModelStore) -> None:
    """ "This network routes little: in the small network, the answer gets a larger share"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        gets = []
        for choice in (votes.CHOICES["draw"], votes.CHOICES["dynamic"]):
            routed = votes.route_image(store, choice, digit.image)
            weight = routed.weight(routed.steps[-1]).sum(0)
            gets.append(10 * float(weight.max() / weight.sum()))
        return gets[0] < 1.25 < gets[1]

    assert count(holds) == COUNT


def test_why_the_other_digits_stay_high_in_the_small_network(store: ModelStore) -> None:
    """ "cross-entropy, which compares the digits only with each other", "penalizes each … above 0.1"."""
    small, large = (load_recipe(name).to_table() for name in ("mnist-twin-dynamic", "mnist-capsnet-small"))
    assert (small["loss"]["name"], large["loss"]["name"]) == ("cross_entropy", "margin")
    network, loss = store[votes.CHOICES["dynamic"].network], torch.nn.functional.cross_entropy
    lengths = torch.tensor([[0.95, 0.1, 0.0]])
    assert margin_loss(lengths, torch.tensor([0])) == 0
    assert margin_loss(lengths + torch.tensor([0, 0.01, 0]), torch.tensor([0])) > 0, (
        "a length above 0.1 costs"
    )

    def holds(digit: schemas.ExampleDigit) -> bool:
        with torch.no_grad():
            logits = network.model(network.prepare(digit.image)).logits
        target = torch.tensor([digit.label])
        same = torch.allclose(loss(logits, target), loss(logits - 5, target), atol=1e-5)
        rest = []
        for name in ("dynamic", "draw"):
            routed = votes.route_image(store, votes.CHOICES[name], digit.image)
            rest.append(routed.steps[-1].activation.flatten().sort().values[:-1])
        return same and float(rest[0].mean()) > 0.5 and float(rest[1].mean()) < 0.2

    assert count(holds) == COUNT


def test_draw_and_votes_agree(store: ModelStore) -> None:
    def holds(digit: schemas.ExampleDigit) -> bool:
        lengths = draw.recognize(store, schemas.DrawRequest(image=digit.image)).lengths
        request = schemas.VotesRequest(image=digit.image, routing="draw")
        shown = votes.route(store, request).iterations[-1].activation
        return bool(np.abs(np.array(lengths) - np.array(shown)).max() < 2e-4)

    assert count(holds) == COUNT


def test_the_share_of_the_answer_grows(store: ModelStore) -> None:
    """The tour: "From the first iteration to the last, they send a growing share to …"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = votes.route(store, schemas.VotesRequest(image=digit.image))
        last = response.iterations[-1].activation
        shares = [step.share[last.index(max(last))] for step in response.iterations]
        return shares == sorted(shares) and shares[-1] > shares[0]

    assert count(holds) == COUNT


def test_the_twins_differ_in_routing_and_poses_alone() -> None:
    """ "The same network, images and number of training steps; only the routing and the poses … differ"."""

    def rest(name: str) -> dict[str, object]:
        recipe = load_recipe(f"mnist-twin-{name}").to_table()
        options = recipe["model"].get("options", {})
        for key in ("routing", "pose", "pose_dim"):
            options.pop(key, None)
        return {part: recipe.get(part) for part in ("model", "data", "optimizer", "training")}

    twins = [rest(name) for name in votes.TWINS]
    assert all(twin == twins[0] for twin in twins), twins


def test_the_first_twin_is_the_network_above(store: ModelStore) -> None:
    """ "the small network above, beside its twins": both requests have the same values."""
    for digit in digits():
        above = votes.route(store, schemas.VotesRequest(image=digit.image, routing="dynamic"))
        twin = votes.compare(store, schemas.DrawRequest(image=digit.image)).twins[0]
        assert (twin.model, twin.data, twin.iterations) == (above.model, above.data, above.iterations)
