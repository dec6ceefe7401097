"""Requests are validated exactly, and errors name the field; responses cannot hold invalid numbers."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from torchcaps.lab.schemas import ClassScores

ROW = [0.0] * 28
IMAGE = [ROW] * 28
ENDPOINTS = [
    "draw",
    "capsule",
    "tweak",
    "overlap",
    "votes",
    "twins",
    "parts",
    "toy",
    "turn",
    "clusters",
    "attack",
    "compare",
]
PACKED = {"channels": 1, "height": 2, "width": 1, "pixels": "AAA="}
JSON = {"Content-Type": "application/json"}


def error_of(client: TestClient, endpoint: str, content: bytes | str) -> str:
    response = client.post(f"/api/{endpoint}", content=content, headers=JSON)
    assert response.status_code == 422, response.text
    assert list(response.json()) == ["detail"]
    message = response.json()["detail"]
    assert isinstance(message, str)
    assert 0 < len(message) < 300
    return message


def image_with(value: Any) -> str:
    return json.dumps({"image": [[value, *ROW[1:]], *IMAGE[1:]]})


@pytest.mark.parametrize(
    ("value", "expected"),
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
def test_pixels_must_be_finite_numbers_from_0_to_1(client: TestClient, value: Any, expected: str) -> None:
    message = error_of(client, "draw", image_with(value))
    assert message.startswith("image[0][0]: ")
    assert expected in message


@pytest.mark.parametrize(
    "image", [IMAGE[:27], [*IMAGE, ROW], [ROW[:27]] * 28, [], [[]], 3, "image", None, {}, [IMAGE]]
)
@pytest.mark.parametrize("endpoint", ["draw", "votes", "attack", "overlap"])
def test_images_must_have_the_right_size(client: TestClient, endpoint: str, image: Any) -> None:
    assert error_of(client, endpoint, json.dumps({"image": image})).startswith("image")


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        ("capsule", {"image": IMAGE, "row": -1, "column": 0, "type": 0}, "row"),
        ("capsule", {"image": IMAGE, "row": 0, "column": 0, "type": 0.5}, "type"),
        ("tweak", {"pose": [0.0] * 15, "target": 1}, "pose"),
        ("tweak", {"pose": [0.0] * 16, "target": 10}, "target"),
        ("tweak", {"pose": [0.0] * 16, "target": 1.5}, "target"),
        ("tweak", {"pose": [1e30] * 16, "target": 1}, "pose[0]"),
        ("votes", {"image": IMAGE, "routing": "magic"}, "'dynamic', 'em', 'kmeans', 'heinsen' or 'draw'"),
        ("votes", {"image": IMAGE, "iterations": 3}, "iterations"),
        ("toy", {"category": 5, "instance": 0, "azimuth": 0, "elevation": 30, "lighting": 0}, "category"),
        ("toy", {"category": 0, "instance": 0, "azimuth": 0, "elevation": 85, "lighting": 0}, "elevation"),
        ("parts", {"parts": [{"kind": 3, "x": 0, "y": 0, "angle": 0, "scale": 1}]}, "parts[0].kind"),
        ("parts", {"parts": [{"kind": 0, "x": 0, "y": 0, "angle": 0, "scale": 0}]}, "parts[0].scale"),
        ("parts", {"parts": [], "world": "boats"}, "'shapes' or 'faces'"),
        ("compare", {"networks": ["a"], "image": PACKED}, "networks"),
        ("compare", {"networks": ["a", "b"]}, "either an image or a toy"),
        ("compare", {"networks": ["a", "b"], "image": {**PACKED, "width": 2}}, "4 bytes"),
        ("compare", {"networks": ["a", "b"], "image": {**PACKED, "pixels": "é"}}, "2 bytes"),
        ("compare", {"networks": ["a", "b"], "image": PACKED, "attack": "cw"}, "'none', 'fgsm' or 'pgd'"),
        ("clusters", {"points": [[0, 0]]}, "points"),
        ("clusters", {"points": [[0, 0]] * 501}, "points"),
        ("clusters", {"points": [[0, 0, 0]] * 2}, "points[0]"),
        ("clusters", {"points": [[0, 0]] * 2, "sigma": 0}, "sigma"),
        ("clusters", {"points": [[0, 0]] * 2, "seed": -1}, "seed"),
        ("attack", {"image": IMAGE, "method": "magic"}, "'fgsm' or 'pgd'"),
        ("attack", {"image": IMAGE, "more": 1}, "more"),
    ],
)
def test_the_error_names_the_field(client: TestClient, endpoint: str, body: Any, expected: str) -> None:
    assert expected in error_of(client, endpoint, json.dumps(body))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
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
def test_a_body_must_be_a_json_object(client: TestClient, endpoint: str, content: bytes) -> None:
    response = client.post(f"/api/{endpoint}", content=content, headers=JSON)
    assert response.status_code in (400, 422)
    assert isinstance(response.json()["detail"], str)


def test_a_body_must_be_sent_as_json(client: TestClient) -> None:
    response = client.post(
        "/api/draw", content=json.dumps({"image": IMAGE}), headers={"Content-Type": "text/plain"}
    )
    assert response.status_code == 422
    assert "application/json" in response.json()["detail"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_deep_nesting_is_rejected(client: TestClient, endpoint: str) -> None:
    for content in (b"[" * 400_000, b'{"image":' * 50_000, b'{"image":' + b"[" * 4000 + b"]" * 4000 + b"}"):
        assert 400 <= client.post(f"/api/{endpoint}", content=content, headers=JSON).status_code < 500


@pytest.mark.parametrize(
    "body", [{"image": [[]] * 200_000}, {f"unknown{number}": 0 for number in range(40_000)}]
)
def test_validation_stops_at_the_first_of_many_errors(client: TestClient, body: Any) -> None:
    assert "more)" not in error_of(client, "draw", json.dumps(body)), "the other errors were listed too"


def test_the_session_header_is_limited_to_64_characters(client: TestClient) -> None:
    body = {"pose": [0.0] * 16, "target": 1}
    response = client.post("/api/tweak", json=body, headers={"X-Session": "s" * 65})
    assert response.status_code == 422
    assert "X-Session" in response.json()["detail"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "text"])
def test_responses_reject_invalid_numbers(value: Any) -> None:
    with pytest.raises(ValidationError):
        ClassScores(best=0, scores=[0.5, value])


def test_responses_reject_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="score"):
        ClassScores(best=0, scores=[1.0], score=1.0)  # type: ignore[call-arg]
