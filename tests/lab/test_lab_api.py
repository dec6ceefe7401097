"""Endpoints that belong to no single view."""

from typing import Any

import numpy as np
from starlette.testclient import TestClient


def test_status_lists_the_networks(client: TestClient) -> None:
    status = client.get("/api/status").json()
    [network] = [each for each in status["models"] if each["id"] == "capsnet_small-mnist"]
    expected = {"model": "capsnet_small", "data": "mnist", "num_params": 960848, "metrics": {}}
    assert expected.items() <= network.items()
    assert (network["in_channels"], network["decoder"], network["scores"]) == (1, True, "lengths")
    assert status["run"] is None
    assert status["classes"]["toys"] == ["animal", "human", "plane", "truck", "car"]


def test_there_are_examples_of_every_digit(digits: list[dict[str, Any]]) -> None:
    counts = np.bincount([digit["label"] for digit in digits])
    assert len(counts) == 10
    assert counts.min() >= 6
    pixels = np.array([digit["image"] for digit in digits])
    assert pixels.shape == (len(digits), 28, 28)
    assert pixels.min() == 0
    assert pixels.max() == 1
