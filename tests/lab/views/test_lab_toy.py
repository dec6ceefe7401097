import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from support.lab_models import CARDS
from torchcaps.data.worlds.toys import render
from torchcaps.data.worlds.toys.table import AZIMUTHS, SPLIT_INSTANCES
from torchcaps.lab import toy_accuracy
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.views.toy import list_toys
from torchcaps.models import pretrained_path
from torchcaps.training import load_weights


def test_toys_lists_the_viewpoints(client: TestClient) -> None:
    response = client.get("/api/toys").json()
    assert len(response["azimuths"]) == 18
    assert len(response["elevations"]) == 9
    assert set(response["trained"]["azimuths"]) <= set(response["azimuths"])


def test_toy_renders_and_classifies(post: Callable[..., dict[str, Any]]) -> None:
    view = {"category": 2, "instance": 3, "azimuth": 33.3, "elevation": 45.0, "lighting": 0}
    response = post("toy", **view)
    picture = render(2, 3, 33.3, 45.0, 0).numpy() / 255
    np.testing.assert_allclose(response["image"], picture, atol=1e-3)
    assert np.shape(response["capsules"]["pose"]) == (4, 4)
    for network in ("capsules", "cnn"):
        assert response[network]["best"] == int(np.argmax(response[network]["scores"]))
        assert sum(response[network]["scores"]) == pytest.approx(1, abs=1e-3)
    full_turn = post("toy", **(view | {"azimuth": 393.3}))
    assert full_turn["image"] == response["image"]


@pytest.mark.parametrize(
    ("options", "azimuths", "elevations"),
    [
        (None, 18, 9),
        ({"viewpoint": "azimuth"}, 6, 9),
        ({"viewpoint": "elevation"}, 18, 3),
        ({"azimuths": [0, 2]}, 2, 9),
    ],
)
def test_training_viewpoints_come_from_the_model_card(options: Any, azimuths: int, elevations: int) -> None:
    key = ("matrix_capsnet_small", "toys")
    card = replace(CARDS[key], facts={"data_options": options})
    trained = list_toys(ModelStore({key: (card.build(), card)})).trained
    assert (len(trained.azimuths), len(trained.elevations)) == (azimuths, elevations)


@pytest.mark.parametrize("model", toy_accuracy.MODELS.values())
def test_the_shipped_networks_were_trained_with_all_azimuths(model: str) -> None:
    """ "Training used all 18 azimuths; the test toys are new": no option of the data leaves azimuths out."""
    _, card = load_weights(pretrained_path(model, toy_accuracy.DATA))
    assert not {"viewpoint", "azimuths"} & set(card.facts.get("data_options") or {})
    assert len(AZIMUTHS) == 18
    assert not set(SPLIT_INSTANCES["train"]) & set(SPLIT_INSTANCES["test"])


def test_the_accuracy_around_the_ring_is_that_of_the_shipped_weights(client: TestClient) -> None:
    measured = json.loads(toy_accuracy.FILE.read_text(encoding="utf-8"))
    accuracy = client.get("/api/toys").json()["accuracy"]
    for key, model in toy_accuracy.MODELS.items():
        entry = toy_accuracy.entry_of(model)
        assert measured["sha256"][key] == entry["sha256"], "run python -m torchcaps.lab.toy_accuracy again"
        assert sum(measured["count"]) == entry["metrics"]["test"]["count"]
        whole = sum(measured["right"][key]) / sum(measured["count"])
        assert whole == pytest.approx(entry["metrics"]["test"]["accuracy"], abs=1e-3)
        for each, right, count in zip(accuracy[key], measured["right"][key], accuracy["count"], strict=True):
            assert each["low"] < each["share"] < each["high"]
            assert each["share"] == pytest.approx(right / count, abs=1e-4)


def test_a_turn_has_the_poses_of_its_views(post: Callable[..., dict[str, Any]]) -> None:
    view = {"category": 1, "instance": 4, "azimuth": 40.0, "elevation": 45.0, "lighting": 2}
    turn = post("turn", **view)
    assert np.shape(turn["poses"]) == (18, 16)
    for azimuth, pose in list(zip(turn["azimuths"], turn["poses"], strict=True))[::6]:
        seen = post("toy", **(view | {"azimuth": azimuth}))["capsules"]["pose"]
        np.testing.assert_allclose(np.ravel(seen), pose, atol=2e-4)
    lit = [np.ravel(post("toy", **(view | {"lighting": light}))["capsules"]["pose"]) for light in range(6)]
    for poses, moves in ((np.array(turn["poses"]), turn["turn_moves"]), (np.array(lit), turn["light_moves"])):
        far = max(np.linalg.norm(one - two) for one in poses for two in poses)
        assert moves == pytest.approx(far / np.linalg.norm(poses, axis=1).mean(), abs=2e-3)
