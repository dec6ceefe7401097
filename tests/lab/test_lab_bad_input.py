"""Whatever is sent, the answer is a sentence and never a 500; every answer carries the safe headers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

ROW = [0.0] * 28
IMAGE = [ROW] * 28
POSTS = ["draw", "tweak", "overlap", "votes", "toy", "clusters", "attack"]
JSON = {"Content-Type": "application/json"}


def refused(client: TestClient, path: str, content: bytes | str, status: int = 422) -> str:
    answer = client.post(f"/api/{path}", content=content, headers=JSON)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["detail"]
    sentence = answer.json()["detail"]
    assert isinstance(sentence, str)
    assert 0 < len(sentence) < 300
    return sentence


def image_with(value: Any) -> str:
    return json.dumps({"image": [[value, *ROW[1:]], *IMAGE[1:]]})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "finite number"),
        (float("inf"), "finite number"),
        (1.5, "less than or equal to 1"),
        (-0.1, "greater than or equal to 0"),
        ("0.5", "valid number"),
        (True, "valid number"),
        (None, "valid number"),
        ([0.5], "valid number"),
        (10**400, ""),
    ],
)
def test_pixels_are_finite_numbers_from_0_to_1(client: TestClient, value: Any, says: str) -> None:
    sentence = refused(client, "draw", image_with(value))
    assert sentence.startswith("image[0][0]: ")
    assert says in sentence


@pytest.mark.parametrize(
    "image", [IMAGE[:27], [*IMAGE, ROW], [ROW[:27]] * 28, [], [[]], 3, "image", None, {}, [IMAGE]]
)
@pytest.mark.parametrize("path", ["draw", "votes", "attack", "overlap"])
def test_images_have_one_size(client: TestClient, path: str, image: Any) -> None:
    body = {"image": image} | ({"epsilon": 0.1} if path == "attack" else {})
    assert refused(client, path, json.dumps(body)).startswith("image")


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        b'"text"',
        b"{}",
        b"\xff\xfe{}",
        b'{"\\ud800": 1}',
        b"NaN",
        b"\x00" * 100,
    ],
)
def test_no_object_no_answer(client: TestClient, path: str, content: bytes) -> None:
    answer = client.post(f"/api/{path}", content=content, headers=JSON)
    assert answer.status_code in (400, 422)
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize("path", POSTS)
def test_deep_nesting_is_refused(client: TestClient, path: str) -> None:
    for content in (b"[" * 400_000, b'{"image":' * 50_000, b'{"image":' + b"[" * 4000 + b"]" * 4000 + b"}"):
        assert 400 <= client.post(f"/api/{path}", content=content, headers=JSON).status_code < 500


def test_large_bodies_are_refused_before_they_are_read(client: TestClient) -> None:
    assert "1 MB" in refused(client, "draw", b" " * 1_000_001, 413)

    def drops() -> Iterator[bytes]:  # without a length told beforehand
        for _ in range(20):
            yield b" " * 100_000

    answer = client.post("/api/draw", content=drops(), headers=JSON)
    assert answer.status_code == 413
    assert "1 MB" in answer.json()["detail"]
    told = client.post("/api/draw", content=b"{}", headers={**JSON, "Content-Length": "9" * 5000})
    assert told.status_code == 413


def test_a_body_must_say_that_it_is_json(client: TestClient) -> None:
    answer = client.post(
        "/api/draw", content=json.dumps({"image": IMAGE}), headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 422
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("tweak", {"pose": [0.0] * 15, "target": 1}, "pose"),
        ("tweak", {"pose": [0.0] * 16, "target": 10}, "target"),
        ("tweak", {"pose": [0.0] * 16, "target": 1.5}, "target"),
        ("tweak", {"pose": [1e30] * 16, "target": 1}, "pose[0]"),
        ("votes", {"image": IMAGE, "routing": "magic"}, "'dynamic', 'kmeans' or 'em'"),
        ("votes", {"image": IMAGE, "iterations": 0}, "iterations"),
        ("votes", {"image": IMAGE, "iterations": 11}, "iterations"),
        ("toy", {"category": 5, "instance": 0, "azimuth": 0, "elevation": 30, "lighting": 0}, "category"),
        ("toy", {"category": 0, "instance": 0, "azimuth": 0, "elevation": 85, "lighting": 0}, "elevation"),
        ("clusters", {"points": [[0, 0]]}, "points"),
        ("clusters", {"points": [[0, 0]] * 501}, "points"),
        ("clusters", {"points": [[0, 0, 0]] * 2}, "points[0]"),
        ("clusters", {"points": [[0, 0]] * 2, "sigma": 0}, "sigma"),
        ("clusters", {"points": [[0, 0]] * 2, "seed": -1}, "seed"),
        ("attack", {"image": IMAGE, "epsilon": 0.6}, "epsilon"),
        ("attack", {"image": IMAGE, "epsilon": 0.1, "more": 1}, "more"),
    ],
)
def test_the_sentence_names_what_is_wrong(client: TestClient, path: str, body: Any, says: str) -> None:
    assert says in refused(client, path, json.dumps(body))


def test_a_session_is_a_short_name(client: TestClient) -> None:
    body = {"pose": [0.0] * 16, "target": 1}
    answer = client.post("/api/tweak", json=body, headers={"X-Session": "s" * 65})
    assert answer.status_code == 422
    assert "X-Session" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/docs", 200),
        ("GET", "/docs.css", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/api/status", 200),
        ("GET", "/nowhere", 404),
        ("GET", "/static/../server.py", 404),
        ("GET", "/static/%2e%2e/server.py", 404),
        ("GET", "/api/draw", 405),
        ("POST", "/api/draw", 422),
        ("DELETE", "/", 405),
    ],
)
def test_every_answer_is_safe_to_show(client: TestClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_large_bodies_are_refused_safely_too(client: TestClient) -> None:
    answer = client.post("/api/draw", content=b" " * 1_000_001)
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_the_api_page_needs_no_other_host_and_no_script(client: TestClient) -> None:
    page = client.get("/docs").text
    assert "POST /api/draw" in page
    assert "://" not in page
    assert "<script" not in page
    assert "style=" not in page
