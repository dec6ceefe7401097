"""Sentences about two networks, in Overlap, Toy, Attack and Compare: each holds for 40 of 40 inputs."""

import numpy as np
import pytest
import torch

from support.lab_digits import COUNT, count, digits, pixels
from torchcaps.data.worlds.toys.table import SPLIT_INSTANCES
from torchcaps.lab import schemas
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.views import attack, overlap


def overlapping_digits() -> list[schemas.OverlapRequest]:
    """Every digit with another one over it, 8 pixels to the lower right."""
    requests = []
    for one, two in zip(digits(), reversed(digits())):
        image = np.zeros((36, 36))
        image[:28, :28] += one.image
        image[8:, 8:] += two.image
        requests.append(schemas.OverlapRequest(image=np.clip(image, 0, 1).tolist()))
    assert len(requests) == COUNT
    return requests


def test_the_scores_of_the_cnn_add_up_to_1(store: ModelStore) -> None:
    """ "The scores add up to 1, so two equal scores have at most 0.5 each"."""
    sums = [sum(overlap.recognize(store, request).cnn.scores) for request in overlapping_digits()]
    np.testing.assert_allclose(sums, 1, atol=1e-3)


def test_the_scores_under_attack_are_sigmoids(store: ModelStore) -> None:
    """The card of the CNN says: one sigmoid per class, each from 0 to 1."""
    network = store[attack.CNN]
    output = network.model(network.prepare([[0.5] * 28] * 28))
    torch.testing.assert_close(output.scores, torch.sigmoid(output.logits))


@pytest.mark.parametrize("method", ["fgsm", pytest.param("pgd", marks=pytest.mark.slow)])
def test_an_attack_changes_no_pixel_by_more_than_epsilon(store: ModelStore, method: str) -> None:
    """ "changes each of them by at most ε", "The prediction first changes at ε = …"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        request = schemas.AttackRequest(image=digit.image, method=method)  # type: ignore[arg-type]
        response = attack.attack(store, request)
        right = response.epsilons[0] == 0
        for curve in (response.capsules, response.cnn):
            images = pixels(curve.images).reshape(-1, 28, 28) / 255
            change = np.abs(images - np.array(digit.image)).max((1, 2))
            right &= bool((change <= np.array(response.epsilons) + 1 / 255).all())  # images have 8 bits
            others = [
                epsilon
                for epsilon, after in zip(response.epsilons, curve.after, strict=True)
                if after != curve.before
            ]
            right &= curve.changes_at == (min(others) if others else None)
            right &= [int(np.argmax(row)) for row in curve.scores] == curve.after
            if method == "fgsm":  # "Blank paper cannot lose ink": nothing else stays as it was
                image = np.array(digit.image)
                still = np.abs(images[-1] - image) < 1 / 255
                right &= bool(np.isin(image[still], [0, 1]).all() and still.any())
        return right

    assert count(holds) == COUNT


def test_each_capsule_draws_its_own_digit(store: ModelStore) -> None:
    """ "The two longest capsules are the network's answer, and each of them draws its own reconstruction"."""
    different = 0
    for request in overlapping_digits():
        answer = overlap.recognize(store, request).capsules
        assert sorted(answer.best) == sorted(np.argsort(answer.lengths)[-2:].tolist())
        first, second = (np.array(each) for each in answer.reconstructions)
        different += np.abs(first - second).max() > 0.3
    assert different == COUNT


def test_an_attack_increases_the_loss(store: ModelStore) -> None:
    """ "in the direction that increases the network's loss", "Each network … with its own gradient"."""

    def holds(digit: schemas.ExampleDigit) -> bool:
        answer = attack.attack(store, schemas.AttackRequest(image=digit.image))
        falls = all(
            curve.scores[1][curve.before] < curve.scores[0][curve.before]
            for curve in (answer.capsules, answer.cnn)
        )
        return falls and answer.capsules.images != answer.cnn.images

    assert attack.attack(store, schemas.AttackRequest(image=digits()[0].image, method="pgd")).steps == 10
    assert count(holds) == COUNT


def test_the_scores_of_every_network_are_what_its_card_says(store: ModelStore) -> None:
    """Compare: "each from 0 to 1", "a softmax: the scores add up to 1", "lengths of capsules"."""
    random = np.random.default_rng(0)
    for info in store.info():
        network = store[info.model, info.data]
        shape = (info.in_channels, *info.image_size)
        for _ in range(COUNT // 10):  # ten images at a time
            images = torch.tensor(random.random((10, *shape)), dtype=torch.float32)
            with torch.no_grad():
                output = network.model.eval()(images)
            scores = network.shown_scores(output)
            assert scores.min() >= 0, info.id
            assert scores.max() <= 1 + 1e-5, info.id
            if info.scores == "softmax":
                torch.testing.assert_close(scores.sum(1), torch.ones(10), atol=1e-4, rtol=0)
            if info.scores == "lengths":
                assert output.capsules is not None
                lengths = output.capsules.pose.flatten(2).norm(dim=-1)
                torch.testing.assert_close(scores, lengths, atol=1e-3, rtol=0)


def test_the_toys_of_the_curves_were_not_used_in_training() -> None:
    """ "test toys, not used in training"."""
    assert not set(SPLIT_INSTANCES["train"]) & set(SPLIT_INSTANCES["test"])


def test_the_full_color_is_the_largest_difference(store: ModelStore) -> None:
    """ "Full color: the largest difference in this picture"; the page shows the square root."""
    largest = 0
    for request in overlapping_digits():
        lead = overlap.recognize(store, request).capsules.lead
        largest += np.abs(lead).max() == pytest.approx(1)
    assert largest == COUNT
