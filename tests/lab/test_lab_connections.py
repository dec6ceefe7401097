"""Clients that leave early or send slowly, over raw sockets on the loopback interface."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from fastapi import FastAPI

from torchcaps.cli.listening import bind_socket
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import TweakRequest, TweakResponse
from torchcaps.lab.server import create_app
from torchcaps.lab.views import draw
from torchcaps.web.connections import LimitedProtocol, create_server

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
        server = create_server(app)
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


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection; false if it sends something instead."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.01)


def test_requests_of_clients_that_left_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    count, release, computed = 50, threading.Event(), []

    def reconstruct(store: ModelStore, request: TweakRequest) -> TweakResponse:
        computed.append(request)
        return TweakResponse(reconstruction=[[0.0]], offsets=[0.0], strips="AA==")

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


SLOW_STARTS = {
    "nothing": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: loc",
    "half a body": HEADER + BODY[:5],
    "half a body after an error": HEADER.replace(b"/api/tweak", b"/nowhere") + BODY[:5],
    "half a second header": b"GET /docs.css HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT",
    "half a second body": b"GET /docs.css HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEADER + BODY[:5],
}


@pytest.mark.parametrize("start", SLOW_STARTS.values(), ids=SLOW_STARTS)
def test_a_slow_client_is_disconnected(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedProtocol, "request_timeout", 0.5)
    begin = time.monotonic()
    with running(create_app(ModelStore({}))) as port, connect(port, start) as client:
        client.settimeout(0.1)
        while time.monotonic() < begin + 10:
            try:
                client.sendall(b"x")  # a byte now and then does not extend the time
                if not client.recv(65536):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert 0.5 <= time.monotonic() - begin < 10


def test_many_slow_clients_do_not_hold_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedProtocol, "request_timeout", 2.0)
    with running(create_app(ModelStore({}))) as port, ExitStack() as connections:
        starts = [SLOW_STARTS["half a header"], SLOW_STARTS["half a body"]] * 100
        clients = [connections.enter_context(connect(port, start)) for start in starts]
        with connect(port, b"GET /docs.css HTTP/1.1\r\nHost: localhost\r\n\r\n") as other:
            assert status_line(other) == b"HTTP/1.1 200 OK"
        for client in clients:
            assert is_closed(client)


def test_too_many_connections_close_the_longest_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedProtocol, "max_connections", 10)
    with running(create_app(ModelStore({}))) as port, ExitStack() as connections:
        start = SLOW_STARTS["half a header"]
        clients = [connections.enter_context(connect(port, start)) for _ in range(15)]
        for client in clients[:5]:
            assert is_closed(client)
        clients[-1].sendall(b"alhost\r\n\r\n")
        assert status_line(clients[-1]) == b"HTTP/1.1 200 OK"


def test_a_request_in_progress_is_not_closed_for_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedProtocol, "max_connections", 2)
    monkeypatch.setattr(LimitedProtocol, "request_timeout", 0.5)
    result = TweakResponse(reconstruction=[[0.0]], offsets=[0.0], strips="AA==")
    monkeypatch.setattr(draw, "reconstruct", lambda store, request: result)
    release, app = threading.Event(), create_app(ModelStore({}))
    worker = app.state.worker
    with running(app) as port, ExitStack() as connections:
        wait_until(lambda: worker._thread is not None and worker.waiting() == 0)
        worker.submit(None, lambda: release.wait(TIMEOUT))
        clients = [connections.enter_context(connect(port, HEADER + BODY)) for _ in range(2)]
        wait_until(lambda: worker.waiting() == 2)
        with connect(port) as new:
            assert is_closed(new)
        time.sleep(0.6)  # the time limit is for the request alone, not for its computation
        release.set()
        assert [status_line(client) for client in clients] == [b"HTTP/1.1 200 OK"] * 2
