"""Security headers, the size limit of requests, the allowed host names, and the token."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from support.lab_models import untrained_store
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.server import MAX_BODY_BYTES, create_app
from torchcaps.web.middleware import BodySizeLimit

LOCAL = {"127.0.0.1", "localhost", "::1"}
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200),
        ("localhost", 200),
        ("LOCALHOST:9000", 200),
        ("[::1]:8765", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8765", 421),
        ("", 421),
    ],
)
def test_other_host_names_are_rejected(host: str, status: int) -> None:
    with TestClient(create_app(untrained_store(), hosts=LOCAL)) as client:
        response = client.get("/api/status", headers={"Host": host})
    assert response.status_code == status
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    if status == 421:
        assert "localhost" in response.json()["detail"]


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
def test_every_response_has_security_headers(client: TestClient, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    assert response.status_code == status
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"


def test_large_bodies_are_rejected(client: TestClient) -> None:
    response = client.post("/api/draw", content=b" " * 1_000_001, headers=JSON)
    assert response.status_code == 413
    assert "1 MB" in response.json()["detail"]
    assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    absurd = client.post("/api/draw", content=b"{}", headers={**JSON, "Content-Length": "9" * 5000})
    assert absurd.status_code == 413


def test_large_bodies_without_a_content_length_are_rejected(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * 100_000

    response = client.post("/api/draw", content=chunks(), headers=JSON)
    assert response.status_code == 413
    assert "1 MB" in response.json()["detail"]


def test_a_large_body_after_the_response_started_disconnects() -> None:
    sent: list[Message] = []
    received: list[Message] = []

    async def respond_first(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        received.append(await receive())

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * (MAX_BODY_BYTES + 1), "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(BodySizeLimit(respond_first, MAX_BODY_BYTES)({"type": "http", "headers": []}, receive, send))
    assert [message["type"] for message in (*sent, *received)] == ["http.response.start", "http.disconnect"]


@pytest.mark.parametrize(
    ("host", "status"), [("192.0.2.7:80", 200), ("192.0.2.8", 421), ("evil.example", 421)]
)
def test_the_address_that_a_client_connected_to_is_a_known_host(host: str, status: int) -> None:
    with TestClient(create_app(ModelStore({}), hosts=LOCAL), base_url="http://192.0.2.7:80") as client:
        assert client.get("/api/status", headers={"Host": host}).status_code == status


TOKEN = "a-token-of-a-test"


@pytest.fixture
def guarded() -> Iterator[TestClient]:
    """A client of a lab that needs a token."""
    with TestClient(create_app(ModelStore({}), token=TOKEN)) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/static/js/main.js"),
        ("GET", "/api/status"),
        ("POST", "/api/clusters"),
        ("GET", "/nowhere"),
    ],
)
def test_nothing_is_served_without_the_token(guarded: TestClient, method: str, path: str) -> None:
    for query in ("", "?token=", f"?token={TOKEN}x", f"?token={TOKEN[:-1]}", "?token=%C3%A9", "?token=%FF"):
        response = guarded.request(method, path + query)
        assert response.status_code == 403
        assert "torchcaps lab printed" in response.json()["detail"]
        assert "Set-Cookie" not in response.headers
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    response = guarded.request(method, path, headers={"Cookie": "torchcaps_lab=other"})
    assert response.status_code == 403


def test_the_first_visit_sets_a_cookie_that_later_requests_use(guarded: TestClient) -> None:
    visit = guarded.get(f"/?token={TOKEN}")
    assert visit.status_code == 200
    cookie = visit.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie)
    assert guarded.get("/static/js/main.js").status_code == 200
    response = guarded.post("/api/clusters", json={"points": [[0, 0], [1, 1]]})
    assert response.status_code == 200
    assert "Set-Cookie" not in response.headers


def test_no_cookie_is_set_where_no_token_is_needed(client: TestClient) -> None:
    assert "Set-Cookie" not in client.get("/?token=anything").headers
