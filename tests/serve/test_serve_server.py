"""The endpoints: predictions as `Predictor` makes them, batches, limits, tokens and errors."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient
from torch import Tensor

from torchcaps.serve.server import Options, create_app
from torchcaps.training.prediction import Prediction, Predictor

TIMEOUT = 30
ROWS = [[0] * 16, *[[0, *[200] * 14, 0] for _ in range(14)], [0] * 16]


def random_images(count: int) -> Tensor:
    images = torch.randint(0, 256, (count, 1, 16, 16), dtype=torch.uint8)
    images[..., [0, -1], :] = 0
    images[..., [0, -1]] = 0
    return images


def as_file(image: Tensor) -> bytes:
    file = BytesIO()
    Image.fromarray(image[0].numpy()).save(file, "PNG")
    return file.getvalue()


def check(predictions: list[dict[str, Any]], expected: list[Prediction]) -> None:
    assert [each["label"] for each in predictions] == [each.label for each in expected]
    for mine, other in zip(predictions, expected, strict=True):
        assert list(mine["scores"]) == list(other.scores), "best first"
        assert mine["scores"] == pytest.approx(other.scores, abs=1e-5)
        assert mine["score"] == mine["scores"][mine["label"]]


def test_the_root_names_every_address(client: TestClient) -> None:
    answer = client.get("/").json()
    paths = client.get("/openapi.json").json()["paths"]
    documented = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(answer["addresses"]) == documented | {"GET /openapi.json"}


def test_predictions_are_those_of_the_predictor(client: TestClient, predictor: Predictor) -> None:
    images = random_images(5)
    response = client.post("/predict", json={"images": images.tolist()})
    assert response.status_code == 200, response.text
    check(response.json()["predictions"], predictor(images))
    one = client.post("/predict", content=as_file(images[2]), headers={"Content-Type": "image/png"})
    check(one.json()["predictions"], predictor(images[2:3]))


def test_top_limits_the_classes(client: TestClient) -> None:
    full = client.post("/predict", json={"images": [ROWS]}).json()["predictions"][0]
    short = client.post("/predict?top=1", json={"images": [ROWS]}).json()["predictions"][0]
    assert short == {**full, "scores": {full["label"]: full["score"]}}
    assert client.post("/predict?top=0", json={"images": [ROWS]}).status_code == 422


def test_invert_is_passed_on(client: TestClient, predictor: Predictor) -> None:
    images = random_images(1)
    for invert in (True, False):
        response = client.post(f"/predict?invert={invert}", json={"images": images.tolist()})
        check(response.json()["predictions"], predictor(255 - images if invert else images))


def test_info_describes_the_network(client: TestClient, predictor: Predictor) -> None:
    info = client.get("/info").json()
    assert info["model"] == "pooled_cnn"
    assert info["classes"] == ["cat", "dog", "cow"]
    assert (info["in_channels"], info["image_size"], info["sha256"]) == (1, [16, 16], "abc")
    assert info["num_params"] == sum(p.numel() for p in predictor.model.parameters())
    assert info["facts"] == {"data": "animals"}
    assert info["limits"]["max_queue"] == Options().max_queue


def test_health_counts_images_and_batches(predictor: Predictor) -> None:
    app = create_app(predictor)
    with TestClient(app) as client:
        assert client.post("/predict", json={"images": [ROWS] * 3}).status_code == 200
        health = client.get("/health").json()
        assert (health["status"], health["images"], health["batches"], health["largest_batch"]) == (
            "ok",
            3,
            1,
            3,
        )
        app.state.batcher.close()
        stopped = client.get("/health")
        assert (stopped.status_code, stopped.json()["status"]) == (503, "stopped")


class Slow:
    """A predictor whose batches wait for `release`."""

    def __init__(self, predictor: Predictor) -> None:
        self.card, self.model, self.predictor = predictor.card, predictor.model, predictor
        self.read, self.with_background = predictor.read, predictor.with_background
        self.started, self.release = threading.Event(), threading.Event()
        self.sizes: list[int] = []

    def __call__(self, images: Tensor) -> list[Prediction]:
        self.sizes.append(len(images))
        self.started.set()
        assert self.release.wait(TIMEOUT)
        return self.predictor(images)


def test_concurrent_requests_are_joined_and_each_gets_its_own_answer(predictor: Predictor) -> None:
    slow = Slow(predictor)
    app = create_app(slow, Options(max_batch=6))  # type: ignore[arg-type]
    batcher, queued = app.state.batcher, queue.Queue()
    submit = batcher.submit

    def submit_and_report(images: list[Tensor]) -> Any:
        futures = submit(images)
        queued.put(None)
        return futures

    batcher.submit = submit_and_report
    images = random_images(8)
    with TestClient(app) as client, ThreadPoolExecutor(8) as pool:
        requests = [pool.submit(client.post, "/predict", json={"images": images[:1].tolist()})]
        assert slow.started.wait(TIMEOUT)
        requests += [
            pool.submit(client.post, "/predict", json={"images": image[None].tolist()})
            for image in images[1:]
        ]
        for _ in images:
            queued.get(timeout=TIMEOUT)
        slow.release.set()
        answers = [request.result(TIMEOUT).json()["predictions"][0] for request in requests]
    assert slow.sizes == [1, 6, 1]
    check(answers, predictor(images))


def test_a_full_queue_returns_503_and_when_to_come_back(predictor: Predictor) -> None:
    slow = Slow(predictor)
    app = create_app(slow, Options(max_queue=2))  # type: ignore[arg-type]
    with TestClient(app) as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.post, "/predict", json={"images": [ROWS]})
        assert slow.started.wait(TIMEOUT)
        waiting = app.state.batcher.submit([torch.zeros(1, 16, 16, dtype=torch.uint8)])
        full = client.post("/predict", json={"images": [ROWS] * 2})
        assert full.status_code == 503
        assert int(full.headers["Retry-After"]) >= 1
        assert "the queue is full; try again in" in full.json()["detail"]
        app.state.requests += 1
        assert client.post("/predict", json={"images": [ROWS]}).status_code == 503, "too many requests"
        app.state.requests -= 1
        slow.release.set()
        assert first.result(TIMEOUT).status_code == 200
        waiting[0].result(TIMEOUT)
        assert client.post("/predict", json={"images": [ROWS] * 2}).status_code == 200
        assert app.state.requests == 0
        never = client.post("/predict", json={"images": [ROWS] * 3})
        assert (never.status_code, "at most 2 images" in never.json()["detail"]) == (422, True)


def test_requests_that_wait_when_the_server_stops_return_503(predictor: Predictor) -> None:
    slow = Slow(predictor)
    app = create_app(slow)  # type: ignore[arg-type]
    with TestClient(app) as client, ThreadPoolExecutor(3) as pool:
        running = pool.submit(client.post, "/predict", json={"images": [ROWS]})
        assert slow.started.wait(TIMEOUT)
        waiting = pool.submit(client.post, "/predict", json={"images": [ROWS]})
        while app.state.batcher.statistics().waiting < 1:
            pass
        closing = pool.submit(app.state.batcher.close)
        assert waiting.result(TIMEOUT).status_code == 503
        assert "stopping" in waiting.result(TIMEOUT).json()["detail"]
        slow.release.set()
        assert running.result(TIMEOUT).status_code == 200
        closing.result(TIMEOUT)


def test_an_error_of_the_network_is_a_server_error(
    predictor: Predictor, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow(predictor)
    slow.release.set()
    slow.predictor = lambda images: 1 / 0  # type: ignore[assignment]
    with TestClient(create_app(slow)) as client:  # type: ignore[arg-type]
        response = client.post("/predict", json={"images": [ROWS]})
        assert response.status_code == 500
        assert "the network failed" in response.json()["detail"]
        assert "division by zero" in caplog.text
        assert client.get("/health").json()["status"] == "ok"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/predict", b"text", 422, "body: it is not an image that can be read"),
        ("POST", "/predict", b"", 422, "body: it is empty"),
        ("POST", "/predict", b"x" * 20_001, 413, "0.02 MB"),
        ("POST", "/predict?invert=maybe", b"x", 422, "invert"),
        ("GET", "/predict", b"", 405, "method"),
        ("GET", "/nowhere", b"", 404, "address"),
    ],
)
def test_errors_are_one_sentence_of_json(
    predictor: Predictor, method: str, path: str, body: bytes, status: int, message: str
) -> None:
    with TestClient(create_app(predictor, Options(max_body_mb=0.02))) as client:
        response = client.request(method, path, content=body)
    assert response.status_code == status
    assert message in response.json()["detail"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"


TOKEN = "a-token-of-a-test"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_everything_but_health_needs_the_token(predictor: Predictor, header: str | None, status: int) -> None:
    headers = {} if header is None else {"Authorization": header}
    with TestClient(create_app(predictor, token=TOKEN)) as client:
        for path in ("/info", "/openapi.json"):
            assert client.get(path, headers=headers).status_code == status
        response = client.post("/predict", json={"images": [ROWS]}, headers=headers)
        assert response.status_code == status
        assert client.get("/health").status_code == 200
    if status == 401:
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert "Authorization: Bearer TOKEN" in response.json()["detail"]


def test_other_host_names_are_rejected(predictor: Predictor) -> None:
    with TestClient(create_app(predictor, hosts={"localhost"})) as client:
        assert client.get("/info", headers={"Host": "evil.example"}).status_code == 421
        assert client.get("/info", headers={"Host": "localhost:8000"}).status_code == 200


def test_bodies_of_many_pixels_do_not_reach_the_network(predictor: Predictor) -> None:
    with TestClient(create_app(predictor, Options(max_pixels=300))) as client:
        file = BytesIO()
        Image.fromarray(np.zeros((400, 400), np.uint8)).save(file, "PNG")  # a few hundred bytes
        response = client.post("/predict", content=file.getvalue())
        assert response.status_code == 422
        assert "400×400 pixels; at most 300" in response.json()["detail"]
        assert client.get("/health").json()["images"] == 0
