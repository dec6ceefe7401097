"""Every error is one sentence of JSON."""

import logging

import pytest
from starlette.testclient import TestClient

from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import TweakRequest, TweakResponse
from torchcaps.lab.server import create_app
from torchcaps.lab.views import draw

BODY = {"pose": [0.1] * 16, "target": 3}


def test_a_full_queue_returns_429(store: ModelStore) -> None:
    app = create_app(store)
    with TestClient(app) as client:
        app.state.worker.max_waiting = 0
        response = client.post("/api/tweak", json=BODY)
    assert response.status_code == 429
    assert "try again" in response.json()["detail"]


def test_missing_weights_affect_only_the_views_that_use_them(seven: list[list[float]]) -> None:
    with TestClient(create_app(ModelStore({}))) as client:
        response = client.post("/api/draw", json={"image": seven})
        assert response.status_code == 503
        assert "The weights of capsnet_small trained on mnist are not installed" in response.json()["detail"]
        assert client.post("/api/clusters", json={"points": [[0, 0], [1, 1]]}).status_code == 200
        assert client.get("/api/toys").status_code == 200
        assert client.get("/api/status").json()["models"] == []


def test_a_value_error_of_the_library_returns_400(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(store: ModelStore, request: TweakRequest) -> TweakResponse:
        raise ValueError("this pose is not supported")

    monkeypatch.setattr(draw, "reconstruct", reject)
    response = client.post("/api/tweak", json=BODY)
    assert (response.status_code, response.json()) == (400, {"detail": "this pose is not supported"})


def test_an_invalid_response_is_a_server_error(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def return_nan(store: ModelStore, request: TweakRequest) -> TweakResponse:
        return TweakResponse(reconstruction=[[float("nan")]])

    monkeypatch.setattr(draw, "reconstruct", return_nan)
    with caplog.at_level(logging.ERROR):
        response = client.post("/api/tweak", json=BODY)
    assert response.status_code == 500
    assert "invalid TweakResponse" in response.json()["detail"]
    assert "finite number" in caplog.text, "the log has the details"
