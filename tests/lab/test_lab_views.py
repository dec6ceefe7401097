"""Each view answers as its contract says, and with what the library itself says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from lab_models import CARDS
from starlette.testclient import TestClient

from torchcaps.data.worlds.toys import render
from torchcaps.lab import answers
from torchcaps.lab.server import create_app
from torchcaps.lab.toy import toys
from torchcaps.lab.weights import Shelf
from torchcaps.training import predict

Image = list[list[float]]


def ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_status_names_the_networks(client: TestClient) -> None:
    told = client.get("/api/status").json()
    answers.StatusAnswer.model_validate(told)
    assert {"model": "capsnet_small", "data": "mnist", "weights": 960848, "metrics": {}} in told["models"]
    assert told["classes"]["toys"] == ["animal", "human", "plane", "truck", "car"]


def test_examples_hold_every_digit(digits: list[dict[str, Any]]) -> None:
    counts = np.bincount([digit["label"] for digit in digits])
    assert len(counts) == 10
    assert counts.min() >= 6
    pixels = np.array([digit["image"] for digit in digits])
    assert pixels.shape == (len(digits), 28, 28)
    assert pixels.min() == 0
    assert pixels.max() == 1


def test_draw_says_what_the_library_says(client: TestClient, shelf: Shelf, seven: Image) -> None:
    said = ask(client, "draw", image=seven)
    answers.DrawAnswer.model_validate(said)
    model = shelf["capsnet_small", "mnist"].model
    image = torch.tensor(seven)[None, None]
    output = predict(model, (image * 255).round() / 255)
    np.testing.assert_allclose(said["lengths"], output.scores[0], atol=1e-4)
    np.testing.assert_allclose(said["reconstruction"], output.reconstruction[0, 0], atol=1e-4)
    assert said["best"] == int(output.scores[0].argmax())
    assert said["pose"] == said["poses"][said["best"]]
    assert np.shape(said["poses"]) == (10, 16)


def test_draw_shows_couplings_over_the_image(client: TestClient, shelf: Shelf, seven: Image) -> None:
    said = ask(client, "draw", image=seven)
    couplings = np.array(said["couplings"])
    assert said["grid"] == [6, 6]
    assert said["places"] == {"first": 8.0, "step": 2.0}
    assert couplings.shape == (3, 10, 6, 6)
    assert couplings.min() >= 0
    assert couplings.max() == 1
    # A child's shares add up to 1, so each place sends the same at every iteration.
    np.testing.assert_allclose(couplings.sum(1)[0], couplings.sum(1)[-1], atol=2e-3)
    trace = shelf["capsnet_small", "mnist"].model.routing_history(torch.tensor(seven)[None, None])
    last = trace[-1].iterations[-1]
    assert last.coupling is not None
    np.testing.assert_allclose(said["lengths"], last.activation[0].detach(), atol=1e-3)


def test_an_empty_canvas_is_an_image_too(client: TestClient) -> None:
    said = ask(client, "draw", image=[[0] * 28] * 28)
    assert np.isfinite(said["lengths"]).all()


def test_tweak_draws_the_pose_it_is_given(client: TestClient, seven: Image) -> None:
    said = ask(client, "draw", image=seven)
    drawn = ask(client, "tweak", pose=said["pose"], target=said["best"])
    np.testing.assert_allclose(drawn["reconstruction"], said["reconstruction"], atol=1e-3)
    other = ask(client, "tweak", pose=[0.25] * 16, target=said["best"])
    assert other != drawn


def test_overlap_draws_two_capsules(client: TestClient, seven: Image) -> None:
    canvas = np.pad(np.array(seven), 4).tolist()
    said = ask(client, "overlap", image=canvas)
    answers.OverlapAnswer.model_validate(said)
    lengths = said["capsules"]["lengths"]
    assert said["capsules"]["best"] == np.argsort(lengths)[::-1][:2].tolist()
    assert np.shape(said["capsules"]["reconstructions"]) == (2, 36, 36)
    assert said["cnn"]["best"] == np.argsort(said["cnn"]["scores"])[::-1][:2].tolist()
    assert sum(said["cnn"]["scores"]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("routing", ["dynamic", "kmeans", "em"])
def test_votes_follow_a_routing(client: TestClient, seven: Image, routing: str) -> None:
    said = ask(client, "votes", image=seven, routing=routing, iterations=4)
    answers.VotesAnswer.model_validate(said)
    assert len(said["iterations"]) == 4
    assert 0 < len(said["points"]) <= 600
    shown = {point["class"] for point in said["points"]}
    assert said["best"] in shown
    assert len(shown) == 3
    assert 0 <= said["explained"][1] <= said["explained"][0] <= 1
    for step in said["iterations"]:
        assert len(step["weight"]) == len(said["points"])
        assert {mean["class"] for mean in step["means"]} == shown
        assert len(step["activation"]) == 10
        counts = step["histogram"]["counts"]
        assert {int(name) for name in counts} == shown
        total = sum(sum(count) for count in counts.values())
        assert total == pytest.approx(sum(step["weight"]), rel=1e-2), "every vote shown is counted"
    assert all(weight == pytest.approx(0.1) for weight in said["iterations"][0]["weight"])


def test_toys_can_be_turned(client: TestClient) -> None:
    told = client.get("/api/toys").json()
    answers.ToysAnswer.model_validate(told)
    assert len(told["azimuths"]) == 18
    assert len(told["elevations"]) == 9
    assert set(told["trained"]["azimuths"]) <= set(told["azimuths"])
    view = {"category": 2, "instance": 3, "azimuth": 33.3, "elevation": 45.0, "lighting": 0}
    said = ask(client, "toy", **view)
    answers.ToyAnswer.model_validate(said)
    picture = render(2, 3, 33.3, 45.0, 0).numpy() / 255
    np.testing.assert_allclose(said["image"], picture, atol=1e-3)
    assert np.shape(said["capsules"]["pose"]) == (4, 4)
    for network in ("capsules", "cnn"):
        assert said[network]["best"] == int(np.argmax(said[network]["scores"]))
        assert sum(said[network]["scores"]) == pytest.approx(1, abs=1e-3), "shares of one"
    assert ask(client, "toy", **(view | {"azimuth": 393.3}))["image"] == said["image"]


@pytest.mark.parametrize(
    ("options", "azimuths", "elevations"),
    [
        (None, 18, 9),
        ({"viewpoint": "azimuth"}, 6, 9),
        ({"viewpoint": "elevation"}, 18, 3),
        ({"azimuths": [0, 2]}, 2, 9),
    ],
)
def test_the_card_tells_which_views_were_seen(options: Any, azimuths: int, elevations: int) -> None:
    key = ("matrix_capsnet_small", "toys")
    card = replace(CARDS[key], facts={"data_options": options})
    seen = toys(Shelf({key: (card.build(), card)}))["trained"]
    assert (len(seen["azimuths"]), len(seen["elevations"])) == (azimuths, elevations)


def test_attack_stays_within_epsilon(client: TestClient, seven: Image) -> None:
    said = ask(client, "attack", image=seven, epsilon=0.1)
    answers.AttackAnswer.model_validate(said)
    for network in said.values():
        change = np.array(network["image"]) - np.array(seven)
        assert np.abs(change).max() <= 0.1 + 3e-3
        np.testing.assert_allclose(change, 0.1 * np.array(network["perturbation"]), atol=3e-3)
        assert network["after"] == int(np.argmax(network["scores"]))
    still = ask(client, "attack", image=seven, epsilon=0)
    for network in still.values():
        assert network["before"] == network["after"]
        assert np.abs(network["perturbation"]).max() == 0


def test_missing_weights_are_missed_by_their_view_only(seven: Image) -> None:
    with TestClient(create_app(Shelf({}))) as client:
        refused = client.post("/api/draw", json={"image": seven})
        assert refused.status_code == 503
        assert "The weights of capsnet_small trained on mnist are missing" in refused.json()["detail"]
        assert client.post("/api/clusters", json={"points": [[0, 0], [1, 1]]}).status_code == 200
        assert client.get("/api/toys").status_code == 200
        assert client.get("/api/status").json()["models"] == []
