"""The command `torchcaps lab`: it starts quickly, stops cleanly, and explains what prevents a start."""

import errno
import json
import logging
import os
import signal
import socket
import sys
import time
import urllib.request
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer
from typer.testing import CliRunner

from support.lab_models import CARDS
from support.lab_process import lab_process
from torchcaps.cli import listening as command
from torchcaps.cli.app import app
from torchcaps.lab.model_store import REQUIRED_MODELS

RUNNER = CliRunner()


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_the_server_starts_and_stops_on_ctrl_c() -> None:
    with lab_process() as (process, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status", timeout=30) as response:
            assert len(json.load(response)["models"]) == len(REQUIRED_MODELS)
        # An open connection, as a browser keeps it, must not keep the server alive.
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert "stopped" in out
        assert "Traceback" not in err


@pytest.mark.slow
def test_the_server_starts_within_five_seconds() -> None:
    start = time.monotonic()
    with lab_process() as (_, port):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).close()
        assert time.monotonic() - start < 5


def test_a_used_port_is_reported_with_the_next_free_one(used_port: int) -> None:
    result = RUNNER.invoke(app, ["lab", "--port", str(used_port)])
    assert result.exit_code == 1
    assert f"port {used_port} is in use" in result.output
    free = int(result.output.rsplit("--port ", 1)[1])
    assert used_port < free <= used_port + 100


@pytest.mark.parametrize("agree", [True, False])
def test_in_a_terminal_the_next_free_port_is_offered(
    agree: bool, used_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda question, default: questions.append(question) or agree)
    if agree:
        with command.open_listener("lab", "127.0.0.1", used_port) as listener:
            assert listener.getsockname()[1] > used_port
    else:
        with pytest.raises(typer.Exit):
            command.open_listener("lab", "127.0.0.1", used_port)
    assert f"Port {used_port} is in use" in questions[0]


def test_an_address_of_another_machine_is_rejected() -> None:
    with pytest.raises(ValueError, match="--host"):
        command.open_listener("lab", "no.such.host.invalid", 0)
    with pytest.raises(OSError, match="cannot listen"):
        command.open_listener("lab", "192.0.2.1", 8765)  # an address reserved for documentation


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)])
def test_other_machines_need_the_token_in_the_printed_address(
    host: str, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torchcaps.lab.server
    import torchcaps.web.connections

    apps: list[dict[str, Any]] = []
    monkeypatch.setattr(torchcaps.lab.server, "create_app", lambda **options: apps.append(options))
    monkeypatch.setattr(torchcaps.web.connections, "create_server", lambda app: MagicMock())
    monkeypatch.setattr(socket, "gethostname", lambda: "My-Machine")
    for _ in range(2):
        result = RUNNER.invoke(app, ["lab", "--port", "0", "--host", host])
        assert result.exit_code == 0, result.output
        assert ("warning" in result.output) is not local
        token, hosts = apps[-1]["token"], apps[-1]["hosts"]
        assert {"localhost", "127.0.0.1", "::1", host} <= hosts
        assert ({"my-machine", "my-machine.local"} <= hosts) is not local
        if local:
            assert token is None
            assert "token" not in result.output
        else:
            assert len(token) >= 32
            assert f"/?token={token} " in result.output
    assert local or apps[0]["token"] != apps[1]["token"]


def test_a_program_reads_the_address_and_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    import torchcaps.lab.server
    import torchcaps.web.connections

    monkeypatch.setattr(torchcaps.lab.server, "create_app", lambda **options: None)
    monkeypatch.setattr(torchcaps.web.connections, "create_server", lambda app: MagicMock())
    for host in ("127.0.0.1", "0.0.0.0"):
        result = RUNNER.invoke(app, ["lab", "--port", "0", "--host", host, "--json"])
        printed = json.loads(result.stdout)
        assert (printed["token"] is None) == (host == "127.0.0.1")
        assert printed["url"].endswith("/" if printed["token"] is None else f"/?token={printed['token']}")


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_reported_with_the_install_command(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    result = RUNNER.invoke(app, ["lab"])
    assert result.exit_code == 1
    assert "pip install 'torchcaps[lab]'" in result.output


def test_the_test_networks_match_those_of_the_lab() -> None:
    assert set(CARDS) == set(REQUIRED_MODELS)


def test_help_shows_examples() -> None:
    result = RUNNER.invoke(app, ["lab", "--help"], env={**os.environ, "COLUMNS": "120"})
    assert "torchcaps lab --port 9000" in result.output


def test_a_forbidden_port_is_not_reported_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(host: str, port: int) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(command, "bind_socket", forbidden)
    with pytest.raises(OSError, match="port 80: Permission denied"):
        command.open_listener("lab", "127.0.0.1", 80)


@pytest.mark.parametrize(
    ("message", "error", "logged"),
    [
        ("Exception in ASGI application", CancelledError(), False),
        ("Cancel 40 running task(s), timeout graceful shutdown exceeded", None, False),
        ("Exception in ASGI application", RuntimeError(), True),
    ],
)
def test_requests_canceled_by_the_shutdown_are_not_logged(
    message: str, error: BaseException | None, logged: bool
) -> None:
    exc_info = None if error is None else (type(error), error, None)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, message, None, exc_info)
    assert command.is_not_cancellation(record) is logged
