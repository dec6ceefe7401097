"""Who may ask, and how much: around every answer."""

import asyncio
import json
from typing import Any

import pytest
from lab_models import untrained_shelf
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from torchcaps.lab.server import create_app
from torchcaps.lab.shield import LARGEST_BODY, BodyLimit

MINE = {"127.0.0.1", "localhost", "::1"}


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
def test_a_lab_for_this_machine_answers_to_its_names_only(host: str, status: int) -> None:
    with TestClient(create_app(untrained_shelf(), hosts=MINE)) as client:
        answer = client.get("/api/status", headers={"Host": host})
    assert answer.status_code == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    if status == 421:
        assert "localhost" in answer.json()["detail"]


def test_too_much_after_the_answer_has_begun_is_no_error() -> None:
    sent: list[Message] = []
    got: list[Message] = []

    async def answers_first(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        got.append(await receive())

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * (LARGEST_BODY + 1), "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(BodyLimit(answers_first)({"type": "http", "headers": []}, receive, send))
    assert [message["type"] for message in (*sent, *got)] == ["http.response.start", "http.disconnect"]


@pytest.mark.parametrize(
    "body", [{"image": [[]] * 200_000}, {f"unknown{number}": 0 for number in range(40_000)}]
)
def test_a_heap_of_faults_is_told_as_one(client: TestClient, body: Any) -> None:
    answer = client.post("/api/draw", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "more)" not in answer.json()["detail"], "all the others were looked at too"


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_can_be_asked_for_their_head(client: TestClient, path: str) -> None:
    assert client.head(path).status_code == 200


def test_the_api_page_shows_headers_and_all_types(client: TestClient) -> None:
    page = client.get("/docs").text
    assert "X-Session" in page
    for name in client.get("/openapi.json").json()["components"]["schemas"]:
        assert f'id="{name}"' in page
