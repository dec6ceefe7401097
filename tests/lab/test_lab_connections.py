"""Clients that leave early or send slowly, over raw sockets on the loopback interface."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn
from fastapi import FastAPI

from torchcaps.cli.lab import bind_socket
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import TweakRequest, TweakResponse
from torchcaps.lab.server import create_app
from torchcaps.lab.views import draw

TIMEOUT = 30
BODY = json.dumps({"pose": [0.1] * 16, "target": 3}).encode()
HEADER = (
    b"POST /api/tweak HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY)
)


@contextmanager
def running(app: FastAPI) -> Iterator[int]:
    """Run a lab in a thread; yields its port."""
    with bind_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(TIMEOUT)


def connect(port: int, data: bytes = b"") -> socket.socket:
    """A connection that has sent some bytes."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
    connection.sendall(data)
    return connection


def status_line(connection: socket.socket) -> bytes:
    """The first line of the response; empty if the server closed the connection."""
    with connection.makefile("rb") as reader:
        return reader.readline().strip()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.01)


def test_requests_of_clients_that_left_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    count, release, computed = 50, threading.Event(), []

    def reconstruct(store: ModelStore, request: TweakRequest) -> TweakResponse:
        computed.append(request)
        return TweakResponse(reconstruction=[[0.0]])

    monkeypatch.setattr(draw, "reconstruct", reconstruct)
    app = create_app(ModelStore({}))
    worker = app.state.worker
    with running(app) as port, ExitStack() as connections:
        wait_until(lambda: worker._thread is not None and worker.waiting() == 0)
        worker.submit(None, lambda: release.wait(TIMEOUT))
        clients = [connections.enter_context(connect(port, HEADER + BODY)) for _ in range(count)]
        last = connections.enter_context(connect(port, HEADER + BODY))
        wait_until(lambda: worker.waiting() == count + 1)
        for client in clients:
            client.close()
        wait_until(lambda: worker.waiting() == 1)  # they make room for others at once
        release.set()
        assert status_line(last) == b"HTTP/1.1 200 OK"
    assert len(computed) == 1
