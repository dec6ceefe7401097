from base64 import b64decode
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from torchcaps.attacks import fgsm
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.views.attack import CNN, EPSILONS

Image = list[list[float]]
Post = Callable[..., dict[str, Any]]


def images_of(curve: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(b64decode(curve["images"]), np.uint8).reshape(-1, 28, 28) / 255


@pytest.mark.parametrize("method", EPSILONS)
def test_the_change_grows_to_epsilon_and_no_further(post: Post, seven: Image, method: str) -> None:
    response = post("attack", image=seven, method=method)
    epsilons = np.array(response["epsilons"])
    assert epsilons[0] == 0
    assert (np.diff(epsilons) > 0).all()
    for network in ("capsules", "cnn"):
        change = np.abs(images_of(response[network]) - np.array(seven)).max((1, 2))
        np.testing.assert_allclose(change, epsilons, atol=5e-3)


@pytest.mark.parametrize("method", EPSILONS)
def test_the_change_of_a_prediction_is_marked(post: Post, seven: Image, method: str) -> None:
    response = post("attack", image=seven, method=method)
    for network in ("capsules", "cnn"):
        curve = response[network]
        assert curve["after"] == np.argmax(curve["scores"], 1).tolist()
        assert curve["after"][0] == curve["before"]
        changed = [at for at, after in zip(response["epsilons"], curve["after"]) if after != curve["before"]]
        assert curve["changes_at"] == (changed[0] if changed else None)


def test_the_curve_of_fgsm_is_fgsm_at_each_epsilon(post: Post, store: ModelStore, seven: Image) -> None:
    response, network = post("attack", image=seven), store[CNN]
    image, label = network.prepare(seven), torch.tensor([response["cnn"]["before"]])
    for index in (5, 25):
        expected = fgsm(network.model, image, label, response["epsilons"][index])
        np.testing.assert_allclose(images_of(response["cnn"])[index], expected[0, 0], atol=3e-3)


def test_pgd_gives_the_same_curve_again(post: Post, seven: Image) -> None:
    first, again = (post("attack", image=seven, method="pgd") for _ in range(2))
    assert first == again
    assert first["steps"] == 10
