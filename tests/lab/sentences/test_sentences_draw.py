"""Sentences of Draw: each holds for 40 of 40 inputs."""

import numpy as np
import torch

from support.lab_digits import COUNT, count, digits
from torchcaps.capsules import Capsules
from torchcaps.lab import schemas
from torchcaps.lab.introspection import inspect_last_layer
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.views import attack, draw
from torchcaps.layers import CapsuleLayer


def test_capsule_lengths_are_from_0_to_1_and_couplings_start_equal(store: ModelStore) -> None:
    """ "Their length, from 0 to 1", "Iteration 1: every position sends the same share to all digits."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = draw.recognize(store, schemas.DrawRequest(image=digit.image))
        first = np.array(response.couplings[0])
        equal = np.abs(first - first[:1]).max() < 1e-4
        inside = min(response.lengths) >= 0 and max(response.lengths) <= 1
        length = np.linalg.norm(response.pose)  # "16 numbers … Their length"
        return bool(equal and inside and abs(length - response.lengths[response.best]) < 1e-2)

    assert count(holds) == COUNT


def test_the_decoder_draws_from_the_numbers_alone(store: ModelStore) -> None:
    """ "the decoder draws the digit again from the numbers alone"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = draw.recognize(store, schemas.DrawRequest(image=digit.image))
        request = schemas.TweakRequest(pose=response.pose, target=response.best)
        again = np.array(draw.reconstruct(store, request).reconstruction)
        return bool(np.abs(again - np.array(response.reconstruction)).max() < 5e-3)

    assert count(holds) == COUNT


def test_the_capsule_that_is_shown_sends_most_to_the_answer(store: ModelStore) -> None:
    """ "In iteration 3 it sends … % to …", "a softmax of the sums gives what it sends now"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        response = draw.recognize(store, schemas.DrawRequest(image=digit.image))
        capsule, sent = response.capsule, np.array(response.couplings)
        sums = np.exp(np.sum(capsule.products[:-1], 0))
        right = np.abs(sums / sums.sum() - capsule.shares[-1]).max() < 1e-3
        totals = sent[-1].sum((1, 2))
        return bool(right and capsule.shares[-1][response.best] > 0.1 and totals.argmax() == response.best)

    assert count(holds) == COUNT


def test_the_directions_of_primary_capsules_decide_the_answer(store: ModelStore) -> None:
    """ "All primary capsules are long, also on a blank sheet", "with equal lengths, the answer is …"."""
    network = store[draw.MODEL]

    def children(image: list[list[float]]) -> tuple[CapsuleLayer, Capsules]:
        _, layer, capsules = inspect_last_layer(network.model, network.prepare(image))
        return layer, capsules

    def answer(layer: CapsuleLayer, pose: torch.Tensor) -> int:
        return int(layer.history(Capsules.from_vectors(pose))[-1].activation.argmax())

    def unit(capsules: Capsules) -> torch.Tensor:
        return capsules.pose / capsules.pose.norm(dim=-1, keepdim=True)

    _, blank = children(digits()[0].image[:1] * 28)  # the first row of an image is empty
    assert float(blank.activation.min()) > 0.5
    without = set()  # what the lengths alone give

    @torch.no_grad()
    def holds(digit: schemas.ExampleDigit) -> bool:
        layer, capsules = children(digit.image)
        lengths = capsules.activation.unsqueeze(-1)
        without.add(answer(layer, unit(blank) * lengths))
        same = answer(layer, unit(capsules) * lengths.mean()) == answer(layer, capsules.pose)
        return same and float(lengths.min()) > 0.5

    assert not np.any(digits()[0].image[0])
    assert count(holds) == COUNT == 40
    assert len(without) == 1, "with the directions of a blank sheet, all digits have one answer"


def test_a_square_is_a_weighted_mean_over_the_types(store: ModelStore) -> None:
    """What the card says: "the mean over the 8 capsules at its position, weighted …", "only the middle"."""
    image = digits()[0].image
    response = draw.recognize(store, schemas.DrawRequest(image=image))
    lengths, shares = np.array(response.primary), np.zeros((10, 8))
    place = (2, 3)
    for kind in range(8):
        request = schemas.CapsuleRequest(image=image, row=place[0], column=place[1], type=kind)
        shares[:, kind] = draw.inspect_capsule(store, request).shares[-1]
    ratio = np.array(response.couplings)[(-1, slice(None), *place)] / response.couplings[0][0][2][3]
    weight = lengths[(slice(None), *place)]
    np.testing.assert_allclose(ratio, 10 * shares @ weight / weight.sum(), atol=0.02)
    field = response.field_centers
    corner = field.first - field.step / 2 + 0.5
    assert corner > 5
    assert corner + field.step * response.grid[0] < len(image) - 5


def test_shared_weights_are_the_same_at_all_places(store: ModelStore) -> None:
    """ "all places of the image vote with the same matrices": a larger image needs no more of them."""
    shared, dense = (store[key].model for key in (attack.CAPSULES, draw.MODEL))
    places = len(shared.features(torch.zeros(1, 1, 28, 28)).flatten(2)[0, 0])
    assert places > 1
    assert all(places not in weight.shape for weight in shared.classes.parameters())
    output = shared(torch.zeros(1, 1, 40, 40))
    assert output.scores.shape == (1, 10)
    assert not dense.any_size
