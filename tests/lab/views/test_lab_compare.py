"""Compare: both networks get the same image, in their own size, and an attack stays within ε."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import PackedImage
from torchcaps.lab.views.compare import PGD_STEPS, inputs
from torchcaps.training import predict

Post = Callable[..., dict[str, Any]]
TOY = {"category": 2, "instance": 1, "azimuth": 20, "elevation": 45, "lighting": 0}
PAIRS = [
    ("capsnet_small-mnist", "pooled_cnn-mnist"),
    ("capsnet_small-multimnist", "capsnet_cnn-multimnist"),
    ("matrix_capsnet_small-toys", "pooled_cnn-toys"),
    ("parts_capsnet-shapes", "parts_cnn-shapes"),
]


def given(pair: tuple[str, str], seven: list[list[float]]) -> dict[str, Any]:
    if "toys" in pair[0]:
        return {"toy": TOY}
    return {"image": PackedImage.of(torch.tensor([seven])).model_dump()}


def pixels(packed: dict[str, Any]) -> np.ndarray:
    return PackedImage(**packed).tensor().numpy().astype(int)


@pytest.mark.parametrize("pair", PAIRS)
def test_each_network_says_what_it_says_alone(
    store: ModelStore, post: Post, seven: list[list[float]], pair: tuple[str, str]
) -> None:
    answers = post("compare", networks=pair, **given(pair, seven))["networks"]
    assert [answer["id"] for answer in answers] == [*pair]
    for name, answer in zip(pair, answers):
        network = store.by_id(name)
        output = predict(network.model, network.prepare(torch.tensor(pixels(answer["seen"]) / 255)))
        np.testing.assert_allclose(answer["scores"], network.shown_scores(output)[0], atol=2e-4)
        assert answer["scores"][answer["best"]] == max(answer["scores"])
        assert (answer["reconstruction"] is not None) is network.info().decoder
        assert not (network.info().decoder and "cnn" in name), "a CNN has no decoder"
        if network.scores == "softmax":
            assert sum(answer["scores"]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("pair", PAIRS[::2])
@pytest.mark.parametrize("attack", ["fgsm", "pgd"])
def test_an_attack_changes_no_pixel_by_more_than_epsilon(
    post: Post, seven: list[list[float]], pair: tuple[str, str], attack: str
) -> None:
    answer = post("compare", networks=pair, attack=attack, epsilon=0.1, **given(pair, seven))
    for network in answer["networks"]:
        change = pixels(network["attacked"]["image"]) - pixels(network["seen"])
        assert 0 < np.abs(change).max() <= round(0.1 * 255) + 1
    assert PGD_STEPS == 10, "the page says so"


def test_without_an_attack_there_is_no_attacked_image(post: Post, seven: list[list[float]]) -> None:
    answer = post("compare", networks=PAIRS[0], **given(PAIRS[0], seven))
    assert [network["attacked"] for network in answer["networks"]] == [None, None]


def test_a_digit_keeps_its_size_in_a_larger_image(post: Post, seven: list[list[float]]) -> None:
    answer = post(
        "compare", networks=["capsnet_small-multimnist", "capsnet_small-mnist"], **given(PAIRS[0], seven)
    )
    large, small = (pixels(network["seen"]) for network in answer["networks"])
    assert (large.shape, small.shape) == ((1, 36, 36), (1, 28, 28))
    np.testing.assert_array_equal(large[:, 4:32, 4:32], small)


def test_networks_must_read_the_image(client: TestClient, seven: list[list[float]]) -> None:
    image = given(PAIRS[0], seven)
    for networks, message in (
        (["pooled_cnn-toys", "pooled_cnn-mnist"], "pooled_cnn-toys reads images with 2 channels"),
        (["pooled_cnn-mnist", "pooled_cnn-mnst"], "did you mean"),
    ):
        response = client.post("/api/compare", json={"networks": networks, **image})
        assert response.status_code == 400
        assert message in response.json()["detail"]


def test_every_network_can_read_the_images_that_are_offered_for_it(store: ModelStore, post: Post) -> None:
    for network in store.all():
        offered = inputs(store, network.id)
        assert offered.images or network.card.in_channels == 2, network.id
        for example in offered.images[:1]:
            other = "pooled_cnn-mnist"
            post("compare", networks=[network.id, other], image=example.image.model_dump())
